package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// table collects rows whose cells are separated by tabs, and aligns them. It grows in memory, so writing never fails.
type table struct {
	text    strings.Builder
	columns *tabwriter.Writer
}

func newTable() *table {
	t := new(table)
	t.columns = tabwriter.NewWriter(&t.text, 0, 0, 2, ' ', 0)
	return t
}

// row adds a line.
func (t *table) row(format string, args ...any) {
	_, _ = fmt.Fprintf(t.columns, format+"\n", args...)
}

// field adds a line with a name and a value, unless the value is empty.
func (t *table) field(name, value string) {
	if value != "" {
		t.row("%s\t%s", name, value)
	}
}

// print writes the rows, without spaces at the ends of lines, and empties the table.
func (t *table) print(out io.Writer) error {
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

// show prints a result: as one line of JSON, or as the table that fill fills.
func show(out io.Writer, asJSON bool, v any, fill func(*table)) error {
	if asJSON {
		return json.NewEncoder(out).Encode(v)
	}
	t := newTable()
	fill(t)
	return t.print(out)
}

// showEach prints results: as a line of JSON each, or as the table that fill fills.
func showEach[T any](out io.Writer, asJSON bool, list []T, fill func(*table)) error {
	if !asJSON {
		return show(out, false, nil, fill)
	}
	lines := json.NewEncoder(out)
	for _, v := range list {
		if err := lines.Encode(v); err != nil {
			return err
		}
	}
	return nil
}
