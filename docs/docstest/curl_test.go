package docstest

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"

	"github.com/belfryhq/belfry/internal/assert"
)

// example is a curl call on a page. It includes the answer if the page shows one.
type example struct {
	where  string // page and line
	method string
	url    string
	body   any // nil: none
	answer any // nil: not shown
}

// examples returns the curl calls on the pages.
func examples(t *testing.T, pages []page) []example {
	t.Helper()
	var all []example
	for _, p := range pages {
		calls := 0 // curl calls in the block before
		for _, b := range p.blocks {
			switch k, _ := parseKind(b.info); {
			case k.language == "sh" && k.background == "" && k.untested == "":
				found, err := curls(b.text)
				assert.NoError(t, err, "%s:%d", p.name, b.line)
				calls = len(found)
				for _, call := range found {
					call.where = fmt.Sprintf("%s:%d", p.name, b.line)
					all = append(all, call)
				}
			case k.language == "json":
				answers, err := documents(b.text)
				if err != nil || len(answers) > calls {
					t.Fatalf("%s:%d: %d answers to %d calls of curl, %v", p.name, b.line, len(answers), calls, err)
				}
				for i, answer := range answers {
					all[len(all)-len(answers)+i].answer = answer
				}
			}
		}
	}
	return all
}

// curls parses the curl calls in a block of commands.
func curls(commands string) ([]example, error) {
	file, err := syntax.NewParser().Parse(strings.NewReader(commands), "")
	if err != nil {
		return nil, err
	}
	var found []example
	for _, statement := range file.Stmts {
		call, ok := statement.Cmd.(*syntax.CallExpr)
		if !ok || len(call.Args) == 0 || call.Args[0].Lit() != "curl" {
			continue
		}
		words, err := expand.Fields(nil, call.Args...)
		if err != nil {
			return nil, err
		}
		one, err := parseCurl(words[1:])
		if err != nil {
			return nil, err
		}
		found = append(found, one)
	}
	return found, nil
}

// parseCurl parses the curl arguments that the pages use.
func parseCurl(words []string) (example, error) {
	var e example
	for i := 0; i < len(words); i++ {
		word := words[i]
		if !strings.HasPrefix(word, "-") {
			e.url = word
			continue
		}
		i++
		if i == len(words) {
			return e, fmt.Errorf("curl %s lacks its value", word)
		}
		switch word {
		case "-X":
			e.method = words[i]
		case "-H":
		case "--json":
			if err := json.Unmarshal([]byte(words[i]), &e.body); err != nil {
				return e, fmt.Errorf("%s: %w", words[i], err)
			}
		default:
			return e, fmt.Errorf("curl %s is not known here", word)
		}
	}
	switch {
	case e.method != "":
	case e.body != nil:
		e.method = http.MethodPost
	default:
		e.method = http.MethodGet
	}
	return e, nil
}

// request returns the call as a request, for finding its operation.
func (e example) request() (*http.Request, error) {
	to, err := url.Parse("http://" + strings.TrimPrefix(e.url, "http://"))
	if err != nil {
		return nil, err
	}
	return &http.Request{Method: e.method, URL: to, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(""))}, nil
}

func TestCurl(t *testing.T) {
	t.Parallel()
	found := examples(t, []page{parsePage("p.md", []byte("```sh\ncurl a/x\n"+
		"curl -X PUT a/y -H 'If-None-Match: *' --json '{\"it\": \"is\"}' # replaces\nkill $(cat pid)\ncurl \\\n  a/z --json '[\"<receipt>\"]'\n```\n\n"+
		"```json\n{\"y\": 1}\n{\"z\": 1}\n```\n"))})
	want := "[{p.md:1 GET a/x <nil> <nil>} {p.md:1 PUT a/y map[it:is] map[y:1]} {p.md:1 POST a/z [<receipt>] map[z:1]}]"
	assert.Equal(t, fmt.Sprint(found), want)
	for _, wrong := range []string{"curl -d '{}' a", "curl a -X", "curl a --json '{'"} {
		_, err := curls(wrong)
		assert.Error(t, err, "%s is taken", wrong)
	}
}
