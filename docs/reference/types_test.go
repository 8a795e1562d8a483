package reference

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

const fieldsHead = "| field | type | |\n| --- | --- | --- |\n"

// types returns the page of all named schemas.
func (d document) types() string {
	var page strings.Builder
	page.WriteString("# API: types\n\n" + generated + "An asterisk marks a field that is always there.\n")
	schemas := d.root.object("components").object("schemas")
	for _, name := range slices.Sorted(slices.Values(schemas.names)) {
		schema := schemas.object(name)
		fmt.Fprintf(&page, "\n## %s\n\n", name)
		if !schema.has("properties") {
			fmt.Fprintf(&page, "%s.\n\n", capital(d.kind(schema, "")))
		}
		if text := schema.text("description"); text != "" {
			page.WriteString(prose(text) + "\n\n")
		}
		if fields := d.merged(schema); fields.has("properties") {
			page.WriteString(fieldsHead)
			d.fields(&page, fields, "", "")
			page.WriteString("\n")
		}
	}
	return page.String()
}

// merged returns a schema of several parts as one, if the parts are more than one.
func (d document) merged(schema object) object {
	parts := schema.list("allOf")
	if len(parts) < 2 {
		return schema
	}
	properties := object{values: map[string]any{}}
	var required list
	for _, p := range parts {
		part, _ := d.resolved(p.(object))
		for _, name := range part.object("properties").names {
			properties.names = append(properties.names, name)
			properties.values[name] = part.object("properties").at(name)
		}
		required = append(required, part.list("required")...)
	}
	return object{values: map[string]any{"properties": properties, "required": required}}
}

// fields writes one line for each field, and for the fields of unnamed objects in it.
func (d document) fields(page *strings.Builder, schema object, prefix, types string) {
	properties := schema.object("properties")
	required := schema.list("required")
	for _, name := range properties.names {
		field := properties.object(name)
		star := ""
		if slices.Contains(required, any(name)) {
			star = " *"
		}
		fmt.Fprintf(page, "| `%s%s`%s | %s | %s |\n", prefix, name, star, d.kind(field, types), cell(field.text("description")))
		switch inner := field.object("items"); {
		case field.has("properties"):
			d.fields(page, field, prefix+name+".", types)
		case inner.has("properties"):
			d.fields(page, inner, prefix+name+"[].", types)
		}
	}
}

// kind returns a schema's type in words. types is the page that names link to.
func (d document) kind(schema object, types string) string {
	_, name := d.resolved(schema)
	alternatives := schema.list("oneOf")
	switch {
	case name != "":
		return fmt.Sprintf("[%s](%s#%s)", name, types, anchor(name))
	case len(schema.list("allOf")) > 0:
		return d.kind(schema.list("allOf")[0].(object), types) + nullable(schema)
	case len(schema.list("enum")) > 0:
		return choices(schema.list("enum")) + nullable(schema)
	case len(alternatives) > 0 && !schema.has("properties"):
		var kinds []string
		for _, a := range alternatives {
			kinds = append(kinds, d.kind(a.(object), types))
		}
		return strings.Join(kinds, " or ")
	case schema.text("type") == "array":
		return "array of " + d.kind(schema.object("items"), types) + nullable(schema)
	case schema.text("type") == "object" && len(schema.object("additionalProperties").names) > 0:
		return "object of " + d.kind(schema.object("additionalProperties"), types) + nullable(schema)
	case schema.text("type") == "":
		return "any JSON"
	}
	return schema.text("type") + bounds(schema) + nullable(schema)
}

func nullable(schema object) string {
	if schema.text("nullable") == "true" {
		return " or null"
	}
	return ""
}

// choices lists the values of an enumeration.
func choices(values list) string {
	var all []string
	for _, v := range values {
		all = append(all, fmt.Sprintf("`%v`", v))
	}
	return strings.Join(all, ", ")
}

// bounds returns the limits of a number or a text.
func bounds(schema object) string {
	for _, names := range [][3]string{{"minimum", "maximum", ""}, {"minLength", "maxLength", " characters"}} {
		low, high := schema.text(names[0]), schema.text(names[1])
		switch {
		case low != "" && high != "":
			return fmt.Sprintf(", %s to %s%s", low, high, names[2])
		case low != "":
			return fmt.Sprintf(", from %s%s", low, names[2])
		case high != "":
			return fmt.Sprintf(", up to %s%s", high, names[2])
		}
	}
	return ""
}

// escaped keeps text out of the reach of HTML, outside of code.
var code = regexp.MustCompile("`[^`]*`|[<>]")

func prose(text string) string {
	return code.ReplaceAllStringFunc(text, func(found string) string {
		return strings.NewReplacer("<", "&lt;", ">", "&gt;").Replace(found[:1]) + found[1:]
	})
}

// cell returns text for a cell of a table.
func cell(text string) string {
	return strings.ReplaceAll(prose(strings.Join(strings.Fields(text), " ")), "|", `\|`)
}

// dropped matches the characters of a heading that a code host leaves out of its anchor.
var dropped = regexp.MustCompile(`[^\p{L}\p{N} _-]`)

func anchor(heading string) string {
	return strings.ReplaceAll(dropped.ReplaceAllString(strings.ToLower(heading), ""), " ", "-")
}
