package apitest

import (
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"
	"pgregory.net/rapid"
)

// Draw draws a request of an operation that is named, or of any operation if none is.
func (a *API) Draw(t *rapid.T, names ...string) Request {
	among := a.operations
	if len(names) > 0 {
		among = slices.DeleteFunc(slices.Clone(among), func(o operation) bool { return !slices.Contains(names, o.name()) })
	}
	o := rapid.SampledFrom(among).Draw(t, "operation")
	r := Request{Operation: o.name(), Method: o.method}
	path, query := o.path, url.Values{}
	for _, p := range o.parameters {
		a.drawParameter(t, p.Value, &path, query, &r)
	}
	r.Target = path
	if len(query) > 0 {
		r.Target += "?" + query.Encode()
	}
	a.drawBody(t, o, &r)
	if rapid.IntRange(0, 2).Draw(t, "spoil") == 0 {
		spoil(t, &r)
	}
	return r
}

func (a *API) drawParameter(t *rapid.T, p *openapi3.Parameter, path *string, query url.Values, r *Request) {
	if !p.Required && rapid.IntRange(0, 6).Draw(t, p.Name+"?") > 0 {
		return
	}
	value := drawValue(t, p.Name, p.Schema, 0)
	switch p.In {
	case openapi3.ParameterInPath:
		*path = strings.ReplaceAll(*path, "{"+p.Name+"}", url.PathEscape(text(value)))
	case openapi3.ParameterInQuery:
		values, list := value.([]any)
		if !list {
			values = []any{value}
		}
		for _, v := range values {
			query.Add(p.Name, text(v))
		}
	case openapi3.ParameterInHeader:
		r.Header = append(r.Header, [2]string{p.Name, text(value)})
	}
}

func text(value any) string {
	if s, ok := value.(string); ok {
		return s
	}
	return fmt.Sprint(value)
}

func (a *API) drawBody(t *rapid.T, o operation, r *Request) {
	kind, schema := o.bodyType()
	if kind == "" || !o.RequestBody.Value.Required && rapid.Bool().Draw(t, "no body") {
		return
	}
	r.Header = append(r.Header, [2]string{"Content-Type", kind})
	if name, ok := o.lines(); ok {
		for range rapid.IntRange(0, 5).Draw(t, "lines") {
			r.Body += encode(drawLine(t, name)) + "\n"
		}
		return
	}
	r.Body = encode(drawValue(t, "", schema, 0))
}

func encode(value any) string {
	data, err := json.Marshal(value)
	if err != nil {
		panic(err) // drawn values are made of maps, lists, strings and numbers
	}
	return string(data)
}

// drawLine draws a line of a batch or of a consumer's stream, whose fields the document describes only in words.
func drawLine(t *rapid.T, schema string) map[string]any {
	if schema == "StreamLine" {
		line := map[string]any{}
		for _, field := range []string{"ack", "release"} {
			if rapid.Bool().Draw(t, field) {
				line[field] = []any{drawString(t, "receipt")}
			}
		}
		if rapid.Bool().Draw(t, "credit") {
			line["credit"] = rapid.IntRange(1, 10000).Draw(t, "n")
		}
		return line
	}
	line := map[string]any{
		"op": rapid.SampledFrom([]string{"schedule", "cancel", "touch", "fire", "patch"}).Draw(t, "op"),
		"id": drawString(t, "id"),
	}
	if line["op"] == "schedule" || line["op"] == "touch" && rapid.Bool().Draw(t, "with delay") {
		line["delay"] = drawString(t, "delay")
	}
	if rapid.Bool().Draw(t, "keyed") {
		line["key"] = drawString(t, "key")
	}
	return line
}

// deepest is the depth of objects from which only required fields are drawn.
const deepest = 3

// drawValue draws a value of a schema, for a field with this name.
func drawValue(t *rapid.T, name string, ref *openapi3.SchemaRef, depth int) any {
	if ref == nil || ref.Value == nil {
		return drawAny(t)
	}
	s := ref.Value
	if len(s.AllOf) == 1 {
		return drawValue(t, name, s.AllOf[0], depth)
	}
	if s.Nullable && rapid.IntRange(0, 5).Draw(t, "null") == 0 {
		return nil
	}
	switch {
	case len(s.OneOf) > 0 && s.Type == nil:
		return drawValue(t, name, rapid.SampledFrom(s.OneOf).Draw(t, "kind of "+name), depth)
	case len(s.Enum) > 0:
		return rapid.SampledFrom(s.Enum).Draw(t, name)
	case s.Type.Is("object"):
		return drawObject(t, s, depth)
	case s.Type.Is("array"):
		list := []any{}
		for range rapid.IntRange(0, 3).Draw(t, "length") {
			list = append(list, drawValue(t, name, s.Items, depth+1))
		}
		return list
	case s.Type.Is("boolean"):
		return rapid.Bool().Draw(t, name)
	case s.Type.Is("integer"), s.Type.Is("number"):
		return drawNumber(t, name, s)
	case s.Type.Is("string"):
		return drawString(t, name)
	}
	return drawAny(t)
}

func drawObject(t *rapid.T, s *openapi3.Schema, depth int) map[string]any {
	object := map[string]any{}
	required, excluded := slices.Clone(s.Required), []string{}
	if len(s.OneOf) > 0 { // exactly one branch's required fields
		chosen := rapid.IntRange(0, len(s.OneOf)-1).Draw(t, "one of")
		for i, branch := range s.OneOf {
			if i == chosen {
				required = append(required, branch.Value.Required...)
			} else {
				excluded = append(excluded, branch.Value.Required...)
			}
		}
	}
	var names []string
	for name := range s.Properties {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		wanted := slices.Contains(required, name) || depth < deepest && rapid.IntRange(0, 2).Draw(t, name+"?") == 0
		if wanted && !slices.Contains(excluded, name) {
			object[name] = drawValue(t, name, s.Properties[name], depth+1)
		}
	}
	if s.AdditionalProperties.Schema != nil {
		for range rapid.IntRange(0, 2).Draw(t, "more") {
			object[rapid.StringMatching(`x-[a-z]{1,10}`).Draw(t, "name")] = drawString(t, "value")
		}
	}
	return object
}

func drawNumber(t *rapid.T, name string, s *openapi3.Schema) any {
	least, most := 0, 1<<31
	if s.Min != nil {
		least = int(*s.Min)
	}
	if s.Max != nil {
		most = int(*s.Max)
	}
	return rapid.OneOf(rapid.IntRange(least, min(most, least+3)), rapid.IntRange(least, most)).Draw(t, name)
}

// drawString draws a usual value of a field with this name, and sometimes any string.
func drawString(t *rapid.T, name string) string {
	if known, ok := usual[name]; ok && rapid.IntRange(0, 9).Draw(t, "unusual") > 0 {
		return rapid.SampledFrom(known).Draw(t, name)
	}
	return rapid.OneOf(
		rapid.StringMatching(`[A-Za-z0-9][A-Za-z0-9._:~-]{0,30}`), rapid.String(), rapid.SampledFrom(odd),
	).Draw(t, name)
}

func drawAny(t *rapid.T) any {
	return rapid.SampledFrom([]any{
		nil, true, 0, -1, 1.5, 1e300, "", "text", []any{1, "b"}, map[string]any{"order": 1042}, json.Number("1e400"),
	}).Draw(t, "any")
}
