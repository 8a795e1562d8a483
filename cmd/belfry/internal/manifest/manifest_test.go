package manifest

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/belfryhq/belfry/internal/assert"
)

// TestDocuments reads YAML and JSON, several documents of a file, aliases and numbers of any length.
func TestDocuments(t *testing.T) {
	all, err := Read("x.yaml", strings.NewReader(`# nothing but a comment
---
kind: queue
name: orders
namespace: shop
spec:
  target: &t {url: "https://x/", headers: {a: "1"}}
  on_dead: {queue: late, target: *t}
---
{"kind": "schedule", "name": "report", "spec": {"repeat": {"every": "1h"}, "task": {"payload": 123456789012345678901}}}
---
kind: calendar
name: de
spec: {closed: [2026-12-25, --12-26]}
---
kind: namespace
name: shop
`))
	assert.NoError(t, err)
	var got []string
	for _, d := range all {
		got = append(got, fmt.Sprintf("%s %s %s %s", d.Kind, d.Namespace, d.Name, d.Spec))
	}
	assert.EqualSlices(t, got, []string{
		`queue shop orders {"target":{"url":"https://x/","headers":{"a":"1"}},"on_dead":{"queue":"late","target":` +
			`{"url":"https://x/","headers":{"a":"1"}}}}`,
		`schedule  report {"repeat":{"every":"1h"},"task":{"payload":123456789012345678901}}`,
		`calendar  de {"closed":["2026-12-25","--12-26"]}`,
		`namespace  shop {}`,
	}, "documents")
}

// TestFaults names the file, the line and the field of each faulty document.
func TestFaults(t *testing.T) {
	for text, want := range map[string]string{
		"kind: queue\nname: a\nspec:\n  max: 3":                            "f:4: spec.max is not a field that is known",
		"kind: queue\nname: a\nspec:\n  target:\n    urll: x":              "f:5: spec.target.urll is not a field that is known",
		"kind: queue\nname: a\nspec:\n  window:\n    day: x":               "f:5: spec.window.day is not a field that is known",
		"kind: schedule\nname: a\nspec:\n  task:\n    target:\n      u: x": "f:6: spec.task.target.u is not a field that is known",
		"kind: schedule\nname: a\nspec:\n  task:\n    id: x":               "f:5: spec.task.id is not",
		"kind: schedule\nname: a\nspec:\n  task:\n    window: {x: 1}":      "f:5: spec.task.window.x is not",
		"kind: key\nname: a\nspec:\n  grants:\n  - key: x":                 "f:4: spec.grants.key is not a field that is known",
		"kind: quue\nname: a":                                      `f:1: kind is "quue" (one of namespace`,
		"kind: queue":                                              "f:1: name is absent",
		"kind: queue\nname: a\nsepc: {}":                           "f:3: sepc is not a field that is known",
		"kind: key\nname: a\nnamespace: b":                         "f:3: namespace is not a field of a key",
		"kind: queue\nname: 7":                                     "f:2: name must be a string",
		"kind: queue\nname: a\nspec: [1]":                          "f:3: spec",
		"- kind: queue":                                            "f:1: is no document",
		"kind: queue\nkind: key\nname: a":                          "f:2: kind is given twice",
		"kind: queue\nname: a\nspec:\n  <<: {a: 1}":                "f:4: a name must be a text",
		"kind: queue\nname: a\nspec: !x {}\n---\nkind: b\nname: c": `f:5: kind is "b"`,
		"kind: queue\nname: !!binary aGk=":                         "f:2: a value has the tag !!binary",
		"kind: queue\nname: a\nspec: {max_per_second: .inf}":       "f:3: ",
		"kind: queue\nname: a\nspec: &a {target: *a}":              "nested more than 100 deep",
		"kind: queue\n\tname: a":                                   "f: yaml: line 2",
		"kind: schedule\nname: a\nspec: {task: {payload: &a [1, 2, 3, 4, 5, 6, 7, 8]}}\n" +
			"---\n" + bomb(): "more than 1048576 values",
	} {
		_, err := Read("f", strings.NewReader(text))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s\n%v\nwant %s", text, err, want)
		}
	}
	_, err := Read("f", strings.NewReader("kind: a\nname: b\n---\nkind: queue\nname: b\nspec: {x: 1}\n"))
	assert.Equal(t, strings.Count(fmt.Sprint(err), "f:"), 2, "faults of two documents: %v", err)
}

// bomb returns a document whose aliases stand for 9^8 values.
func bomb() string {
	text := "kind: schedule\nname: a\nspec:\n  task:\n    payload:\n      a0: &a0 [1,1,1,1,1,1,1,1,1]\n"
	for i := 1; i < 8; i++ {
		text += fmt.Sprintf("      a%d: &a%d [%s]\n", i, i, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d,", i-1), 9), ","))
	}
	return text
}

// TestFieldsAreThoseOfTheContract holds the names of the specs and openapi.yaml together.
func TestFieldsAreThoseOfTheContract(t *testing.T) {
	doc, err := openapi3.NewLoader().LoadFromFile("../../../../httpapi/openapi.yaml")
	assert.NoError(t, err)
	for kind, call := range map[Kind][2]string{
		Namespace: {"/v1/namespaces/{namespace}", "PUT"}, Calendar: {"/v1/calendars/{calendar}", "PUT"},
		Queue: {"/v1/queues/{queue}", "PUT"}, Schedule: {"/v1/schedules/{id}", "PUT"}, Key: {"/v1/keys", "POST"},
	} {
		item := doc.Paths.Find(call[0])
		if item == nil {
			t.Errorf("there is no %s", call[0])
			continue
		}
		schema := item.GetOperation(call[1]).RequestBody.Value.Content["application/json"].Schema.Value
		var documented []string
		for name, property := range propertiesOf(schema) {
			if name != "id" && name != "name" && name != "queue" && !property.Value.ReadOnly {
				documented = append(documented, name)
				checkBelow(t, kind, name, property.Value)
			}
		}
		slices.Sort(documented)
		assert.EqualSlices(t, Fields(kind), documented, "fields of a %s", kind)
	}
}

func propertiesOf(s *openapi3.Schema) openapi3.Schemas {
	all := openapi3.Schemas{}
	for name, property := range s.Properties {
		all[name] = property
	}
	for _, part := range s.AllOf {
		for name, property := range propertiesOf(part.Value) {
			all[name] = property
		}
	}
	return all
}

// checkBelow checks that the members of a documented member are known, too.
func checkBelow(t *testing.T, kind Kind, name string, s *openapi3.Schema) {
	form, shape := forms[kind], `{%q:{%q:null}}`
	if s.Items != nil {
		s, shape = s.Items.Value, `{%q:[{%q:null}]}`
	}
	for below, property := range propertiesOf(s) {
		err := form.Root(fmt.Appendf(nil, shape, name, below), false)
		if err != nil && strings.Contains(err.Error(), "is not a field") && !property.Value.ReadOnly {
			t.Errorf("%s: %v", kind, err)
		}
	}
}
