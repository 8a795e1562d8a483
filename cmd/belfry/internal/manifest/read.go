package manifest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/belfryhq/belfry/internal/contract"
)

// The limits of a file. Aliases of YAML could make a short text long.
const (
	maxFile   = 16 << 20 // bytes
	maxValues = 1 << 20  // of one document, aliases counted as often as they are used
	maxDepth  = 100
)

// Document describes one thing. Spec is the JSON of its spec.
type Document struct {
	Kind      Kind
	Name      string
	Namespace string // empty: that of the call
	Spec      json.RawMessage

	file string
	node *yaml.Node // the mapping
}

// Error is a fault of a document.
type Error struct {
	File   string
	Line   int
	Field  string // empty: the document as a whole
	Detail string
}

func (e *Error) Error() string {
	text := e.File
	if e.Line > 0 {
		text += ":" + strconv.Itoa(e.Line)
	}
	if e.Field != "" {
		text += ": " + e.Field
		return text + " " + e.Detail
	}
	return text + ": " + e.Detail
}

// Fault returns the error of a field of the spec, which need not be there.
func (d *Document) Fault(field, detail string) error {
	line := d.node.Line
	path := "spec"
	if field != "" {
		path += "." + field
	}
	at := d.node
	for _, part := range strings.Split(path, ".") {
		name, _, _ := strings.Cut(part, "[")
		key, value := member(at, name)
		if key == nil {
			break
		}
		line, at = key.Line, value
	}
	return &Error{File: d.file, Line: line, Field: path, Detail: detail}
}

// Read reads the documents of a file. name stands for the file in errors. The error joins one *Error for each faulty
// document.
func Read(name string, in io.Reader) (all []*Document, err error) {
	text, err := io.ReadAll(io.LimitReader(in, maxFile+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: %w", name, err)
	case len(text) > maxFile:
		return nil, &Error{File: name, Detail: fmt.Sprintf("is longer than %d bytes", maxFile)}
	}
	var faults []error
	for decoder := yaml.NewDecoder(bytes.NewReader(text)); ; {
		var root yaml.Node
		err := decoder.Decode(&root)
		if errors.Is(err, io.EOF) {
			return all, errors.Join(faults...)
		}
		if err != nil { // the rest cannot be told apart
			return nil, errors.Join(append(faults, fmt.Errorf("%s: %w", name, err))...)
		}
		if isEmpty(&root) {
			continue
		}
		d, err := newDocument(name, root.Content[0])
		if err != nil {
			faults = append(faults, err)
			continue
		}
		all = append(all, d)
	}
}

// isEmpty reports whether a document has nothing but comments.
func isEmpty(root *yaml.Node) bool {
	return len(root.Content) == 0 || root.Content[0].Kind == yaml.ScalarNode && root.Content[0].Tag == "!!null"
}

func newDocument(file string, node *yaml.Node) (*Document, error) {
	d := &Document{file: file, node: node}
	c := &converter{file: file}
	text, err := c.json(nil, node, 0)
	if err != nil {
		return nil, err
	}
	var kind string
	err = contract.Members{
		"kind": contract.Text(&kind), "name": contract.Text(&d.Name), "namespace": contract.Text(&d.Namespace),
		"spec": func(r *contract.Reader, _ string, _ bool) (err error) {
			d.Spec, err = r.Value()
			return err
		},
	}.Root(text, false)
	if err != nil {
		return nil, d.top(err)
	}
	d.Kind = Kind(kind)
	form, known := forms[d.Kind]
	switch {
	case !known:
		return nil, d.fault("kind", fmt.Sprintf("is %q (one of %s)", contract.Clip(kind), list(Kinds)))
	case d.Name == "":
		return nil, d.fault("name", "is absent")
	case d.Namespace != "" && !d.Kind.HasNamespace():
		return nil, d.fault("namespace", "is not a field of a "+kind)
	case d.Spec == nil:
		d.Spec = json.RawMessage("{}")
	}
	if err := form.Root(d.Spec, false); err != nil {
		return nil, d.Refusal(err)
	}
	return d, nil
}

func list(kinds []Kind) string {
	texts := make([]string, len(kinds))
	for i, k := range kinds {
		texts[i] = string(k)
	}
	return strings.Join(texts, ", ")
}

// Refusal returns an error about the spec with the place of its field, if the error names one.
func (d *Document) Refusal(err error) error {
	var wrong *contract.MemberError
	var mistyped *json.UnmarshalTypeError
	switch {
	case errors.As(err, &wrong):
		return d.Fault(wrong.Name, detailOf(wrong))
	case errors.As(err, &mistyped) && mistyped.Field != "":
		return d.Fault(mistyped.Field, "must not be a "+mistyped.Value)
	}
	return d.Fault("", "is wrong: "+err.Error())
}

// top returns an error about the document itself with the place of its field.
func (d *Document) top(err error) error {
	var wrong *contract.MemberError
	if errors.As(err, &wrong) {
		return d.fault(wrong.Name, detailOf(wrong))
	}
	return d.fault("", "is no document of belfry apply: "+err.Error())
}

func detailOf(e *contract.MemberError) string {
	if e.Limit != "" {
		return e.Detail + " (limit " + e.Limit + ")"
	}
	return e.Detail
}

func (d *Document) fault(field, detail string) error {
	line := d.node.Line
	if key, _ := member(d.node, field); key != nil {
		line = key.Line
	}
	return &Error{File: d.file, Line: line, Field: field, Detail: detail}
}

// within adds the name of the enclosing object to an error about a member.
func within(full string, err error) error {
	var wrong *contract.MemberError
	if errors.As(err, &wrong) && !strings.HasPrefix(wrong.Name, full+".") && wrong.Name != full {
		return &contract.MemberError{Name: full + "." + wrong.Name, Detail: wrong.Detail, Limit: wrong.Limit}
	}
	return err
}

// member returns a member of a mapping, or nil.
func member(m *yaml.Node, name string) (key, value *yaml.Node) {
	for m != nil && m.Kind == yaml.AliasNode {
		m = m.Alias
	}
	if m == nil || m.Kind != yaml.MappingNode {
		return nil, nil
	}
	for i := 0; i+1 < len(m.Content); i += 2 {
		if m.Content[i].Value == name {
			return m.Content[i], m.Content[i+1]
		}
	}
	return nil, nil
}

// converter writes values of YAML as JSON.
type converter struct {
	file   string
	values int
}

func (c *converter) fail(n *yaml.Node, detail string) error {
	return &Error{File: c.file, Line: n.Line, Detail: detail}
}

// json appends a value.
func (c *converter) json(b []byte, n *yaml.Node, depth int) ([]byte, error) {
	c.values++
	switch {
	case c.values > maxValues:
		return nil, c.fail(n, fmt.Sprintf("the document has more than %d values", maxValues))
	case depth > maxDepth:
		return nil, c.fail(n, fmt.Sprintf("the document is nested more than %d deep", maxDepth))
	}
	switch n.Kind {
	case yaml.AliasNode:
		return c.json(b, n.Alias, depth+1)
	case yaml.MappingNode:
		return c.object(b, n, depth)
	case yaml.SequenceNode:
		b = append(b, '[')
		for i, element := range n.Content {
			if i > 0 {
				b = append(b, ',')
			}
			var err error
			if b, err = c.json(b, element, depth+1); err != nil {
				return nil, err
			}
		}
		return append(b, ']'), nil
	}
	return c.scalar(b, n)
}

func (c *converter) object(b []byte, n *yaml.Node, depth int) ([]byte, error) {
	b = append(b, '{')
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		switch {
		case key.Kind != yaml.ScalarNode || key.Tag == "!!merge":
			return nil, c.fail(key, "a name must be a text; merge keys (<<) are not read")
		case seen[key.Value]:
			return nil, &Error{File: c.file, Line: key.Line, Field: key.Value, Detail: "is given twice"}
		}
		seen[key.Value] = true
		if i > 0 {
			b = append(b, ',')
		}
		name, err := json.Marshal(key.Value)
		if err != nil {
			return nil, c.fail(key, err.Error())
		}
		if b, err = c.json(append(append(b, name...), ':'), n.Content[i+1], depth+1); err != nil {
			return nil, err
		}
	}
	return append(b, '}'), nil
}

func (c *converter) scalar(b []byte, n *yaml.Node) ([]byte, error) {
	var value any = n.Value
	switch n.ShortTag() {
	case "!!int", "!!float":
		if json.Valid([]byte(n.Value)) { // as it is: a number of JSON may have any digits
			return append(b, n.Value...), nil
		}
		fallthrough
	case "!!bool", "!!null":
		if err := n.Decode(&value); err != nil {
			return nil, c.fail(n, err.Error())
		}
	case "!!str", "!!timestamp":
	default:
		return nil, c.fail(n, fmt.Sprintf("a value has the tag %s, which is not read", n.Tag))
	}
	text, err := json.Marshal(value)
	if err != nil {
		return nil, c.fail(n, err.Error())
	}
	return append(b, text...), nil
}
