package reference

import (
	"fmt"
	"os"
	"strings"

	"go.yaml.in/yaml/v3"
)

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
