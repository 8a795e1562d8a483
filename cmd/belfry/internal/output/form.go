package output

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/spf13/cobra"
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

// Flags hold the flags by which a caller chooses the form of a result. The zero value prints tables.
type Flags struct {
	form      form // empty: table
	noHeaders bool
	clock     Clock // nil: the machine's
	begun     bool  // a YAML document is printed
}

// Clock tells the time from which distances count.
type Clock interface{ Now() time.Time }

// UseClock sets the clock of the tables.
func (f *Flags) UseClock(c Clock) { f.clock = c }

// Peer is the annotation of a flag that sets the same value as another flag, which it names.
const Peer = "belfry-peer"

// Words is the annotation of a flag with the words by which a shell completes it.
const Words = "belfry-words"

// Add adds the flags to a command.
func (f *Flags) Add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.VarP((*formValue)(&f.form), "output", "o", "`form` of the result: table, wide, json or yaml (default table)")
	flags.VarPF((*jsonValue)(&f.form), "json", "j", "print JSON, one value a line: -o json").NoOptDefVal = "true"
	flags.BoolVar(&f.noHeaders, "no-headers", false, "leave out the headers of tables")
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

// IsTable reports whether the result is for people.
func (f *Flags) IsTable() bool { return f.form != asJSON && f.form != asYAML }

// NewTable returns an empty table of the form that the flags ask for.
func (f *Flags) NewTable() *Table {
	t := newTable(f.form == wide, f.noHeaders)
	t.clock = f.clock
	return t
}

// Encoder prints values for programs.
type Encoder struct {
	flags *Flags
	out   io.Writer
}

// NewEncoder returns an encoder of the form that the flags ask for. Without such a form it is one for JSON.
func (f *Flags) NewEncoder(out io.Writer) *Encoder { return &Encoder{f, out} }

// Encode prints a value: a line of JSON, or a YAML document. Characters that a terminal might obey are escaped.
func (e *Encoder) Encode(v any) error {
	text, err := e.text(v)
	if err != nil {
		return err
	}
	_, err = e.out.Write(escaped(text))
	return err
}

func (e *Encoder) text(v any) ([]byte, error) {
	if e.flags.form != asYAML {
		text, err := json.Marshal(v)
		return append(text, '\n'), err
	}
	text, err := yamlOf(v)
	if err == nil && e.flags.begun {
		text = append([]byte("---\n"), text...)
	}
	e.flags.begun = true
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

// Show prints a result: as a value for programs, or as the table that fill fills.
func (f *Flags) Show(out io.Writer, v any, fill func(*Table)) error {
	if !f.IsTable() {
		return f.NewEncoder(out).Encode(v)
	}
	t := f.NewTable()
	fill(t)
	return t.Print(out)
}

// ShowEach prints results: as a value for programs each, or as the table that fill fills.
func ShowEach[T any](out io.Writer, f *Flags, list []T, fill func(*Table)) error {
	if f.IsTable() {
		return f.Show(out, nil, fill)
	}
	values := f.NewEncoder(out)
	for _, v := range list {
		if err := values.Encode(v); err != nil {
			return err
		}
	}
	return nil
}
