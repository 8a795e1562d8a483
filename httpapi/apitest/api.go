package apitest

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/gorillamux"
)

// API is an interface described by its document.
type API struct {
	router     routers.Router
	operations []operation // by path and method
}

// operation is one method of one path.
type operation struct {
	*openapi3.Operation
	method, path string
	parameters   openapi3.Parameters // the path's parameters included
}

// name returns the operation's name in failures and counts.
func (o operation) name() string { return o.method + " " + o.path }

// Load reads a document.
func Load(document []byte) (*API, error) {
	doc, err := openapi3.NewLoader().LoadFromData(document)
	if err != nil {
		return nil, err
	}
	if err := doc.Validate(context.Background()); err != nil {
		return nil, err
	}
	a := &API{}
	if a.router, err = gorillamux.NewRouter(doc); err != nil {
		return nil, err
	}
	for path, item := range doc.Paths.Map() {
		for method, op := range item.Operations() {
			a.operations = append(a.operations, operation{op, method, path, slices.Concat(item.Parameters, op.Parameters)})
		}
	}
	slices.SortFunc(a.operations, func(a, b operation) int { return cmp.Compare(a.name(), b.name()) })
	return a, nil
}

// Operations returns the names of all operations.
func (a *API) Operations() []string {
	var names []string
	for _, o := range a.operations {
		names = append(names, o.name())
	}
	return names
}

// bodyType returns the documented content type and schema of the operation's body, or "" if it has none.
func (o operation) bodyType() (string, *openapi3.SchemaRef) {
	if o.RequestBody == nil {
		return "", nil
	}
	var types []string
	for t := range o.RequestBody.Value.Content {
		types = append(types, t)
	}
	first := slices.Min(types)
	return first, o.RequestBody.Value.Content[first].Schema
}

// lines reports whether the body is lines of JSON, and returns the name of a line's schema. The document describes such
// bodies in words and by that schema.
func (o operation) lines() (schema string, ok bool) {
	t, _ := o.bodyType()
	if !strings.Contains(t, "ndjson") {
		return "", false
	}
	if strings.Contains(o.path, "batch") {
		return "BatchLine", true
	}
	return "StreamLine", true
}

// Request is a drawn request.
type Request struct {
	Operation string // its name
	Method    string
	Target    string // path and query
	Header    [][2]string
	Body      string
	Spoiled   string // the applied faults; empty: the request follows the document
}

func (r Request) String() string {
	const most = 2000
	body := r.Body
	if len(body) > most {
		body = body[:most] + "…"
	}
	return fmt.Sprintf("%s %s %v %q (spoiled: %q)", r.Method, r.Target, r.Header, body, r.Spoiled)
}
