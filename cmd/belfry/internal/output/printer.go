// Package output prints the results of commands in the form that the caller asks for.
//
//	-o table    aligned columns for people, the default
//	-o wide     a table with more columns
//	-o json     one JSON value a line: one line for a single result, a line each for several; also --json
//	-o yaml     a YAML document for each of these values, between lines of ---
//
// JSON and YAML have the same fields, with the names and the order of the HTTP interface. Numbers keep their digits.
//
// Why not sigs.k8s.io/yaml for YAML? It sorts the fields, and turns numbers into floats.
package output

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strconv"
	"time"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"
)

// form is a way to print a result.
type form string

const (
	table  form = "table"
	wide   form = "wide"
	asJSON form = "json"
	asYAML form = "yaml"
)

var forms = []form{table, wide, asJSON, asYAML}

// Printer prints the results of one run of a command, in the form that the caller chooses by flags: tables, unless
// there is a flag.
type Printer struct {
	Out   io.Writer
	Clock Clock // from whose time the distances in tables count; nil: the machine's

	form      form // empty: table
	noHeaders bool
	begun     bool // a YAML document is printed
}

// Clock tells the time.
type Clock interface{ Now() time.Time }

// Peer is the annotation of a flag that sets the same value as another flag, which it names.
const Peer = "belfry-peer"

// Words is the annotation of a flag with the words by which a shell completes it.
const Words = "belfry-words"

// AddFlags adds the flags to a command.
func (p *Printer) AddFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.VarP((*formValue)(&p.form), "output", "o", "`form` of the result: table, wide, json or yaml (default table)")
	flags.VarPF((*jsonValue)(&p.form), "json", "j", "print JSON, one value a line: -o json").NoOptDefVal = "true"
	flags.BoolVar(&p.noHeaders, "no-headers", false, "leave out the headers of tables")
	words := make([]string, len(forms))
	for i, word := range forms {
		words[i] = string(word)
	}
	err := errors.Join(
		flags.SetAnnotation("json", Peer, []string{"output"}), flags.SetAnnotation("output", Peer, []string{"json"}),
		flags.SetAnnotation("output", Words, words),
	)
	if err != nil {
		panic(err) // a flag is missing
	}
}

// formValue is the value of --output.
type formValue form

func (v *formValue) String() string { return string(*v) }
func (v *formValue) Type() string   { return "form" }

func (v *formValue) Set(text string) error {
	if !slices.Contains(forms, form(text)) {
		return fmt.Errorf("%q is none of table, wide, json and yaml", text)
	}
	*v = formValue(text)
	return nil
}

// jsonValue is the value of --json.
type jsonValue form

func (v *jsonValue) String() string { return strconv.FormatBool(form(*v) == asJSON) }
func (v *jsonValue) Type() string   { return "bool" }

func (v *jsonValue) Set(text string) error {
	chosen, err := strconv.ParseBool(text)
	switch {
	case err != nil:
		return err
	case chosen:
		*v = jsonValue(asJSON)
	default:
		*v = jsonValue(table)
	}
	return nil
}

// IsTable reports whether the results are for people.
func (p *Printer) IsTable() bool { return p.form != asJSON && p.form != asYAML }

// newTable returns an empty table of the form that the flags ask for.
func (p *Printer) newTable() *Table {
	return &Table{wide: p.form == wide, bare: p.noHeaders, clock: p.Clock}
}

// Encode prints a value for programs: a YAML document if the flags ask for one, or else a line of JSON. Characters that
// a terminal might obey are escaped.
func (p *Printer) Encode(v any) error {
	text, err := p.text(v)
	if err != nil {
		return err
	}
	_, err = p.Out.Write(escaped(text))
	return err
}

func (p *Printer) text(v any) ([]byte, error) {
	if p.form != asYAML {
		text, err := json.Marshal(v)
		return append(text, '\n'), err
	}
	text, err := yamlOf(v)
	if err == nil && p.begun {
		text = append([]byte("---\n"), text...)
	}
	p.begun = true
	return text, err
}

// escaped writes the characters that are not Printable as JSON and quoted texts of YAML write them. Both have such
// characters in quotes only, apart from the ends of lines.
func escaped(text []byte) []byte {
	var b []byte
	for _, r := range string(text) {
		switch {
		case r == '\n' || Printable(r) == r:
			b = utf8.AppendRune(b, r)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			b = fmt.Appendf(b, `\u%04x\u%04x`, high, low)
		default:
			b = fmt.Appendf(b, `\u%04x`, r)
		}
	}
	return b
}

// Line prints a result of a stream that has a line for each: as a value for programs, or as a text in one line.
func (p *Printer) Line(v any, text string) error {
	if !p.IsTable() {
		return p.Encode(v)
	}
	_, err := fmt.Fprintln(p.Out, Text(text))
	return err
}

// Show prints a result: as a value for programs, or as the table to which fill adds it.
func Show[T any](p *Printer, v T, fill func(*Table, T)) error {
	if !p.IsTable() {
		return p.Encode(v)
	}
	t := p.newTable()
	fill(t, v)
	return t.Print(p.Out)
}

// ShowEach prints results: as a value for programs each, or as the table to which fill adds them.
func ShowEach[T any](p *Printer, list []T, fill func(*Table, []T)) error {
	if p.IsTable() {
		return Show(p, list, fill)
	}
	for _, v := range list {
		if err := p.Encode(v); err != nil {
			return err
		}
	}
	return nil
}

// chunk is the number of rows within which Stream aligns columns.
const chunk = 1000

// Stream prints results as they come, since a list may be larger than memory, and returns their number. It ends after
// limit of them, unless limit is 0. header adds the columns of the table, before the first result, and row adds a
// result.
func Stream[T any](
	p *Printer, results iter.Seq2[T, error], limit int, header func(*Table), row func(*Table, T),
) (n int, err error) {
	t := p.newTable()
	for v, err := range results {
		if err != nil {
			return n, errors.Join(err, t.Print(p.Out))
		}
		switch n++; {
		case !p.IsTable():
			err = p.Encode(v)
		case n == 1:
			header(t)
			fallthrough
		default:
			if row(t, v); n%chunk == 0 {
				err = t.Print(p.Out)
			}
		}
		if err != nil {
			return n, err
		}
		if n == limit {
			break
		}
	}
	return n, t.Print(p.Out)
}

// yamlOf returns the YAML document with the fields, the order and the digits of a value's JSON.
func yamlOf(v any) ([]byte, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	tokens := json.NewDecoder(bytes.NewReader(text))
	tokens.UseNumber()
	node, err := nextNode(tokens)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	doc := yaml.NewEncoder(&out)
	doc.SetIndent(2)
	if err := doc.Encode(node); err != nil {
		return nil, err
	}
	return out.Bytes(), doc.Close()
}

// nextNode reads a JSON value.
func nextNode(tokens *json.Decoder) (*yaml.Node, error) {
	token, err := tokens.Token()
	if err != nil {
		return nil, err
	}
	switch value := token.(type) {
	case json.Delim:
		node := &yaml.Node{Kind: yaml.MappingNode}
		if value == '[' {
			node.Kind = yaml.SequenceNode
		}
		for tokens.More() { // keys of an object are tokens like its values
			child, err := nextNode(tokens)
			if err != nil {
				return nil, err
			}
			node.Content = append(node.Content, child)
		}
		if len(node.Content) == 0 {
			node.Style = yaml.FlowStyle
		}
		_, err = tokens.Token() // the end of the object or the list
		return node, err
	case json.Number:
		return numberNode(value.String()), nil
	case string:
		return textNode(value)
	case bool:
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!bool", Value: fmt.Sprint(value)}, nil
	}
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null", Value: "null"}, nil
}

// textNode returns a text, in quotes if any reader could take it for something else: "no" is false in YAML 1.1.
func textNode(value string) (*yaml.Node, error) {
	node := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: value}
	text, err := yaml.Marshal(value)
	if err == nil && (text[0] == '"' || Lines(value) != value) {
		node.Style = yaml.DoubleQuotedStyle
	}
	return node, err
}

// numberNode returns a number with its digits. Without a tag a plain scalar stays as it is.
func numberNode(digits string) *yaml.Node { return &yaml.Node{Kind: yaml.ScalarNode, Value: digits} }
