package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// Table collects rows whose cells are separated by tabs, and aligns them. It grows in memory, so writing never fails.
type Table struct {
	text    strings.Builder
	columns *tabwriter.Writer
}

// NewTable returns an empty table.
func NewTable() *Table {
	t := new(Table)
	t.columns = tabwriter.NewWriter(&t.text, 0, 0, 2, ' ', 0)
	return t
}

// Row adds a line.
func (t *Table) Row(format string, args ...any) {
	_, _ = fmt.Fprintf(t.columns, format+"\n", args...)
}

// Field adds a line with a name and a value, unless the value is empty.
func (t *Table) Field(name, value string) {
	if value != "" {
		t.Row("%s\t%s", name, value)
	}
}

// Print writes the rows, without spaces at the ends of lines, and empties the table.
func (t *Table) Print(out io.Writer) error {
	if err := t.columns.Flush(); err != nil {
		return err
	}
	var text strings.Builder
	for line := range strings.Lines(t.text.String()) {
		text.WriteString(strings.TrimRight(line, " \n") + "\n")
	}
	t.text.Reset()
	_, err := io.WriteString(out, text.String())
	return err
}

// Show prints a result: as one line of JSON, or as the table that fill fills.
func Show(out io.Writer, asJSON bool, v any, fill func(*Table)) error {
	if asJSON {
		return json.NewEncoder(out).Encode(v)
	}
	t := NewTable()
	fill(t)
	return t.Print(out)
}

// ShowEach prints results: as a line of JSON each, or as the table that fill fills.
func ShowEach[T any](out io.Writer, asJSON bool, list []T, fill func(*Table)) error {
	if !asJSON {
		return Show(out, false, nil, fill)
	}
	lines := json.NewEncoder(out)
	for _, v := range list {
		if err := lines.Encode(v); err != nil {
			return err
		}
	}
	return nil
}
