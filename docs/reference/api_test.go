package reference

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// document is the contract, with the pages of its tags.
type document struct {
	root object
	tags []string
}

// operation is one call of the API.
type operation struct {
	method, path string
	spec         object
	parameters   list // of the path and of the call
}

func (o operation) heading() string { return fmt.Sprintf("`%s %s`", o.method, o.path) }

// methods are the verbs of HTTP in the document.
var methods = []string{"get", "put", "post", "patch", "delete"}

func (d document) operations() []operation {
	var all []operation
	paths := d.root.object("paths")
	for _, path := range paths.names {
		item := paths.object(path)
		for _, verb := range item.names {
			if !slices.Contains(methods, verb) {
				continue
			}
			spec := item.object(verb)
			all = append(all, operation{strings.ToUpper(verb), path, spec, slices.Concat(item.list("parameters"), spec.list("parameters"))})
		}
	}
	return all
}

func (d document) tagged(tag string) []operation {
	var some []operation
	for _, o := range d.operations() {
		if slices.Contains(o.spec.list("tags"), any(tag)) {
			some = append(some, o)
		}
	}
	return some
}

// pages returns the text of each page by its path.
func (d document) pages() map[string]string {
	pages := map[string]string{"api.md": d.front(), "api/types.md": d.types()}
	for _, tag := range d.tags {
		pages["api/"+tag+".md"] = d.calls(tag)
	}
	for name, text := range pages {
		pages[name] = strings.TrimSpace(strings.ReplaceAll(text, "\n\n\n", "\n\n")) + "\n"
	}
	return pages
}

const generated = "<!-- Made from httpapi/openapi.yaml by `make reference`. -->\n\n"

// front returns the page with the rules of all calls, and the list of calls.
func (d document) front() string {
	var page strings.Builder
	page.WriteString("# HTTP API\n\n" + generated)
	page.WriteString("Every node serves this contract at `/openapi.yaml`, for generators of clients. The pages below are " +
		"made from it.\n\n## Calls\n\n")
	for _, tag := range d.tags {
		fmt.Fprintf(&page, "### [%s](api/%s.md)\n\n| call | role | does |\n| --- | --- | --- |\n", capital(tag), tag)
		for _, o := range d.tagged(tag) {
			fmt.Fprintf(&page, "| [%s](api/%s.md#%s) | %s | %s |\n", o.heading(), tag, anchor(o.heading()), role(o.spec), cell(o.spec.text("summary")))
		}
		page.WriteString("\n")
	}
	page.WriteString("[Types](api/types.md) has the fields of all bodies.\n\n## Rules of all calls\n\n")
	description := prose(d.root.object("info").text("description"))
	page.WriteString(strings.ReplaceAll(description, "\n## ", "\n### ") + "\n")
	return page.String()
}

// calls returns the page of a tag.
func (d document) calls(tag string) string {
	var page strings.Builder
	fmt.Fprintf(&page, "# API: %s\n\n%s", tag, generated)
	page.WriteString("[All calls](../api.md), and the rules that they share. [All types](types.md).\n")
	for _, o := range d.tagged(tag) {
		d.call(&page, o)
	}
	return page.String()
}

func (d document) call(page *strings.Builder, o operation) {
	fmt.Fprintf(page, "\n## %s\n\n%s\n\n", o.heading(), prose(o.spec.text("summary")))
	if r := role(o.spec); r != "–" {
		fmt.Fprintf(page, "Role: %s.\n\n", r)
	}
	if text := o.spec.text("description"); text != "" {
		page.WriteString(prose(text) + "\n\n")
	}
	if len(o.parameters) > 0 {
		page.WriteString("| parameter | in | type | |\n| --- | --- | --- | --- |\n")
		for _, p := range o.parameters {
			parameter, _ := d.resolved(p.(object))
			fmt.Fprintf(page, "| `%s` | %s | %s | %s |\n", parameter.text("name"), parameter.text("in"),
				d.kind(parameter.object("schema"), "types.md"), cell(parameter.text("description")))
		}
		page.WriteString("\n")
	}
	d.body(page, o.spec.object("requestBody"))
	d.answers(page, o.spec.object("responses"))
}

func (d document) body(page *strings.Builder, ref object) {
	body, _ := d.resolved(ref)
	contents := body.object("content")
	for _, medium := range contents.names {
		schema := contents.object(medium).object("schema")
		fmt.Fprintf(page, "Body, `%s`: %s.", medium, d.kind(schema, "types.md"))
		if text := cell(body.text("description")); text != "" {
			page.WriteString(" " + text)
		}
		page.WriteString("\n\n")
		d.inline(page, schema)
	}
}

// inline writes the fields of a schema that has no name.
func (d document) inline(page *strings.Builder, schema object) {
	if schema.has("properties") {
		page.WriteString(fieldsHead)
		d.fields(page, schema, "", "types.md")
		page.WriteString("\n")
	}
}

// answers writes the statuses of a call. Statuses with a problem and no other body share a line.
func (d document) answers(page *strings.Builder, answers object) {
	var problems []string
	var inlined []object
	page.WriteString("| status | answer | |\n| --- | --- | --- |\n")
	for _, status := range answers.names {
		answer, _ := d.resolved(answers.object(status))
		contents := answer.object("content")
		var kinds []string
		for _, medium := range contents.names {
			if medium == "application/problem+json" {
				problems = append(problems, status)
				continue
			}
			schema := contents.object(medium).object("schema")
			kinds = append(kinds, fmt.Sprintf("%s, `%s`", d.kind(schema, "types.md"), medium))
			if schema.has("properties") {
				inlined = append(inlined, schema)
			}
		}
		if !slices.Contains(problems, status) || len(kinds) > 0 {
			fmt.Fprintf(page, "| %s | %s | %s |\n", status, strings.Join(kinds, "; "), cell(answer.text("description")))
		}
	}
	if len(problems) > 0 {
		fmt.Fprintf(page, "| %s | [Problem](types.md#problem) | |\n", strings.Join(problems, ", "))
	}
	page.WriteString("\n")
	for _, schema := range inlined {
		d.inline(page, schema)
	}
}

// role returns the role that a call needs.
func role(spec object) string {
	if len(spec.list("security")) == 0 {
		return "–"
	}
	words := spec.list("security")[0].(object).list("key")
	switch {
	case len(words) == 0:
		return "any credentials"
	case slices.Contains(words, any("all-namespaces")):
		return fmt.Sprintf("`%s` in all namespaces", words[0])
	case slices.Contains(words, any("some-namespace")):
		return fmt.Sprintf("`%s` in any namespace", words[0])
	}
	return fmt.Sprintf("`%s`", words[0])
}

func capital(text string) string { return strings.ToUpper(text[:1]) + text[1:] }

// object is a mapping of a YAML document, in the order of the document.
type object struct {
	names  []string
	values map[string]any // string, object, list or nil
}

type list []any

func (o object) at(name string) any { return o.values[name] }
func (o object) text(name string) string {
	s, _ := o.values[name].(string)
	return strings.TrimSpace(s)
}
func (o object) object(name string) object { c, _ := o.values[name].(object); return c }
func (o object) list(name string) list     { l, _ := o.values[name].(list); return l }
func (o object) has(name string) bool      { _, ok := o.values[name]; return ok }

// load reads an OpenAPI document.
func load(path string) (object, error) {
	source, err := os.ReadFile(path)
	if err != nil {
		return object{}, err
	}
	var root yaml.Node
	if err := yaml.Unmarshal(source, &root); err != nil {
		return object{}, err
	}
	document, ok := decoded(root.Content[0]).(object)
	if !ok {
		return object{}, fmt.Errorf("%s holds no mapping", path)
	}
	return document, nil
}

// decoded returns the value of a node. Scalars are texts.
func decoded(node *yaml.Node) any {
	switch node.Kind {
	case yaml.AliasNode:
		return decoded(node.Alias)
	case yaml.MappingNode:
		o := object{values: map[string]any{}}
		for i := 0; i < len(node.Content); i += 2 {
			name := node.Content[i].Value
			o.names = append(o.names, name)
			o.values[name] = decoded(node.Content[i+1])
		}
		return o
	case yaml.SequenceNode:
		var l list
		for _, child := range node.Content {
			l = append(l, decoded(child))
		}
		return l
	default:
		return node.Value
	}
}

// resolved returns the object that a reference names, and the reference's last word; or the object itself.
func (d document) resolved(o object) (target object, name string) {
	ref := o.text("$ref")
	if ref == "" {
		return o, ""
	}
	target = d.root
	for _, word := range strings.Split(strings.TrimPrefix(ref, "#/"), "/") {
		target, name = target.object(word), word
	}
	return target, name
}
