package oidc

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/belfryhq/belfry/access"
	"github.com/belfryhq/belfry/access/internal/rolefile"
)

// The file of roles and its results have these limits.
const (
	maxRules       = 200
	maxValues      = 100 // of a rule
	maxTokenGrants = 200 // of one token
)

// Roles maps the claims of tokens to grants. It never changes.
type Roles struct {
	file roleFile
}

type roleFile struct {
	Name  path // claim with the caller's name for people
	Rules []rule
}

// rule gives its grants to tokens with one of the values in a claim.
type rule struct {
	Claim      path
	Values     []string // names, or prefixes that end in an asterisk
	Namespaces path     // claim that names the namespaces of the grants without one
	Grants     []access.Grant
}

// path leads to a claim: the names of objects that contain each other, the outermost first.
type path []string

// UnmarshalYAML reads one name, or a list of names.
func (p *path) UnmarshalYAML(node *yaml.Node) error {
	if node.Kind == yaml.ScalarNode {
		*p = path{node.Value}
		return nil
	}
	return node.Decode((*[]string)(p))
}

// LoadRoles reads a file in YAML or JSON, as the package's documentation describes it. It refuses a file that others
// than its owner may change.
func LoadRoles(file string) (*Roles, error) {
	var r Roles
	if err := rolefile.Read(file, &r.file); err != nil {
		return nil, err
	}
	if err := r.check(); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return &r, nil
}

func (r *Roles) check() error {
	if n := len(r.file.Rules); n == 0 || n > maxRules {
		return fmt.Errorf("rules: has %d rules (limit 1 to %d)", n, maxRules)
	}
	for i := range r.file.Rules {
		if err := r.file.Rules[i].check(); err != nil {
			return fmt.Errorf("rules[%d].%w", i, err)
		}
	}
	return nil
}

func (r *rule) check() error {
	if len(r.Claim) == 0 || slices.Contains(r.Claim, "") {
		return errors.New("claim: is empty")
	}
	if n := len(r.Values); n == 0 || n > maxValues {
		return fmt.Errorf("values: has %d values (limit 1 to %d)", n, maxValues)
	}
	for i, v := range r.Values {
		if v == "" || strings.Contains(strings.TrimSuffix(v, "*"), "*") {
			return fmt.Errorf("values[%d]: is empty, or has an asterisk that is not at its end", i)
		}
	}
	grants := r.Grants
	if len(r.Namespaces) > 0 {
		grants = r.within("default", func(access.Grant) bool { return true })
		if len(r.within("", isOpen)) == 0 {
			return errors.New("namespaces: each grant names its own namespace")
		}
	}
	if err := access.CheckGrants(grants); err != nil {
		return err
	}
	return nil
}

// isOpen reports whether a grant leaves its namespace to a claim.
func isOpen(g access.Grant) bool { return g.Namespace == "" }

// within returns the chosen grants of the rule. Those without a namespace get one.
func (r *rule) within(namespace string, chosen func(access.Grant) bool) []access.Grant {
	var grants []access.Grant
	for _, g := range r.Grants {
		if !chosen(g) {
			continue
		}
		if isOpen(g) {
			g.Namespace = namespace
		}
		grants = append(grants, g)
	}
	return grants
}

// grants returns the grants that claims give.
func (r *Roles) grants(claims map[string]any) ([]access.Grant, error) {
	var all []access.Grant
	for i := range r.file.Rules {
		if all = append(all, r.file.Rules[i].grants(claims)...); len(all) > maxTokenGrants {
			return nil, fmt.Errorf("the claims of the token give more than %d grants", maxTokenGrants)
		}
	}
	return all, nil
}

func (r *rule) grants(claims map[string]any) []access.Grant {
	if !slices.ContainsFunc(r.Claim.values(claims), r.has) {
		return nil
	}
	grants := r.within("", func(g access.Grant) bool { return !isOpen(g) })
	for _, namespace := range r.Namespaces.values(claims) {
		if access.CheckNamespace("", namespace) == nil { // a claim names no pattern: "*" is refused here
			grants = append(grants, r.within(namespace, isOpen)...)
		}
	}
	return grants
}

// has reports whether a value of the claim is among the rule's.
func (r *rule) has(value string) bool {
	return slices.ContainsFunc(r.Values, func(v string) bool {
		prefix, open := strings.CutSuffix(v, "*")
		return v == value || open && strings.HasPrefix(value, prefix)
	})
}

// name returns the name of a caller for people: of the claim in the file, or else the subject.
func (r *Roles) name(claims map[string]any, subject string) string {
	for _, name := range r.file.Name.values(claims) {
		if access.CheckKeyName(name) == nil {
			return name
		}
	}
	return subject
}

// values returns the texts in a claim: of a text, number or truth value, or of a list of them. The claim scope has
// texts with spaces between them (RFC 6749, section 3.3). An empty path leads to no claim.
func (p path) values(claims map[string]any) []string {
	var value any = claims
	for _, name := range p {
		object, _ := value.(map[string]any)
		value = object[name]
	}
	list, isList := value.([]any)
	if !isList {
		list = []any{value}
	}
	var texts []string
	for _, v := range list {
		texts = append(texts, textOf(v)...)
	}
	if len(p) == 1 && p[0] == "scope" {
		return strings.Fields(strings.Join(texts, " "))
	}
	return texts
}

// textOf returns the text of a scalar, or nothing.
func textOf(value any) []string {
	switch v := value.(type) {
	case string:
		return []string{v}
	case json.Number:
		return []string{v.String()}
	case bool:
		return []string{strconv.FormatBool(v)}
	}
	return nil
}
