package main

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"

	"go.yaml.in/yaml/v3"
)

// operation is one call of openapi.yaml.
type operation struct {
	name, method, path string
	form               *regexp.Regexp // of a request's path, below a namespace too
}

// contract is what openapi.yaml names.
type contract struct {
	operations []operation
	problems   []string // types, without their prefix
}

var parameter = regexp.MustCompile(`\\\{[^}]*\\\}`) // in a quoted path

func readContract(path string) (*contract, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var doc struct {
		Paths      map[string]map[string]yaml.Node
		Components struct {
			Schemas struct {
				Problem struct {
					Properties struct {
						Type struct{ Enum []string }
					}
				} `yaml:"Problem"`
			}
		}
	}
	if err := yaml.Unmarshal(text, &doc); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	c := new(contract)
	for route, methods := range doc.Paths {
		for method, node := range methods {
			if method == "parameters" {
				continue
			}
			var call struct {
				ID string `yaml:"operationId"`
			}
			if err := node.Decode(&call); err != nil {
				return nil, fmt.Errorf("%s: %w", path, err)
			}
			form := parameter.ReplaceAllString(regexp.QuoteMeta(route), `[^/]*`)
			form = strings.Replace(form, "/v1/", `/v1/(?:namespaces/[^/]+/)?`, 1)
			c.operations = append(c.operations,
				operation{call.ID, strings.ToUpper(method), route, regexp.MustCompile("^" + form + "$")})
		}
	}
	slices.SortFunc(c.operations, func(a, b operation) int { return strings.Compare(a.name, b.name) })
	for _, urn := range doc.Components.Schemas.Problem.Properties.Type.Enum {
		c.problems = append(c.problems, strings.TrimPrefix(urn, problemPrefix))
	}
	return c, nil
}

// named returns the operation of a name, or nil.
func (c *contract) named(name string) *operation {
	for i := range c.operations {
		if c.operations[i].name == name {
			return &c.operations[i]
		}
	}
	return nil
}

// of returns the name of the operation that a request calls, or "".
func (c *contract) of(method, path string) string {
	for _, o := range c.operations { // a path with fewer parameters, such as /v1/nodes/tokens, is more exact
		if o.method == method && o.path == path {
			return o.name
		}
	}
	for _, o := range c.operations {
		if o.method == method && o.form.MatchString(path) {
			return o.name
		}
	}
	return ""
}

// coverage holds the operations and types of problems reached by the passed cases of one client.
type coverage struct {
	mu         sync.Mutex
	operations map[string]bool // seen by the proxies and the peers
	problems   map[string]bool // types that the client reported as wanted
}

func newCoverage() *coverage {
	return &coverage{operations: map[string]bool{}, problems: map[string]bool{}}
}

func (c *coverage) add(set map[string]bool, name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	set[name] = true
}

// missing names the operations and the types of problems that no case has reached. outside are operations that no
// client has.
func (c *coverage) missing(all *contract, outside map[string]string) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var missing []string
	for _, o := range all.operations {
		if !c.operations[o.name] && outside[o.name] == "" {
			missing = append(missing, "operation "+o.name)
		}
	}
	for _, p := range all.problems {
		if !c.problems[p] {
			missing = append(missing, "problem "+p)
		}
	}
	return missing
}
