package output

import (
	"encoding/json"
	"errors"
	"io"
	"iter"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	"github.com/belfryhq/belfry/internal/assert"
)

// printerOf returns a printer with the flags of a command line.
func printerOf(t testing.TB, out io.Writer, line string) *Printer {
	t.Helper()
	p, cmd := &Printer{Out: out}, &cobra.Command{}
	p.AddFlags(cmd)
	assert.NoError(t, cmd.ParseFlags(strings.Fields(line)))
	return p
}

// sequence returns the values of a list as a sequence without an error.
func sequence[T any](list ...T) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for _, v := range list {
			if !yield(v, nil) {
				return
			}
		}
	}
}

type result struct {
	ID      string          `json:"id"`
	Tasks   int             `json:"tasks"`
	Labels  []string        `json:"labels"`
	Payload json.RawMessage `json:"payload"`
}

var results = []result{
	{"b", 12, nil, json.RawMessage(`{"z":1,"a":[true,null,1.50,12345678901234567890,"no","\ud83d\ude00\/"]}`)},
	{"on", 0, []string{}, json.RawMessage(`"line\nline"`)},
}

func header(t *Table) { t.Columns("ID", "TASKS").Wide("LABELS").Add() }

func row(t *Table, r result) { t.Cells(r.ID, r.Tasks, strings.Join(append(r.Labels, "x"), ",")) }

func fill(t *Table, list []result) {
	header(t)
	for _, r := range list {
		row(t, r)
	}
}

// Each form shows the same results. JSON has one value a line, and YAML a document for each.
func TestForms(t *testing.T) {
	const lines = `{"id":"b","tasks":12,"labels":null,"payload":{"z":1,"a":[true,null,1.50,12345678901234567890,"no",` +
		`"\ud83d\ude00\/"]}}` + "\n" + `{"id":"on","tasks":0,"labels":[],"payload":"line\nline"}` + "\n"
	const documents = `id: b
tasks: 12
labels: null
payload:
  z: 1
  a:
    - true
    - null
    - 1.50
    - 12345678901234567890
    - "no"
    - "\U0001F600/"
---
id: "on"
tasks: 0
labels: []
payload: |-
  line
  line
`
	for line, want := range map[string]string{
		"":                        "ID  TASKS\nb   12\non  0\n",
		"-o table":                "ID  TASKS\nb   12\non  0\n",
		"-o wide":                 "ID  TASKS  LABELS\nb   12     x\non  0      x\n",
		"--no-headers":            "b   12\non  0\n",
		"-o wide --no-headers":    "b   12  x\non  0   x\n",
		"-o json":                 lines,
		"--json":                  lines,
		"-j":                      lines,
		"--json=false":            "ID  TASKS\nb   12\non  0\n",
		"-o yaml":                 documents,
		"--output yaml":           documents,
		"-o json --no-headers":    lines,
		"-j -o yaml":              documents, // the last one wins
		"-o yaml --no-headers -j": lines,
	} {
		var out strings.Builder
		if err := ShowEach(printerOf(t, &out, line), results, fill); err != nil || out.String() != want {
			t.Errorf("%s: %v, printed\n%swant\n%s", line, err, &out, want)
		}
		out.Reset()
		n, err := Stream(printerOf(t, &out, line), sequence(results...), 0, header, row)
		if n != len(results) || err != nil || out.String() != want {
			t.Errorf("%s, as a stream: %v, printed\n%swant\n%s", line, err, &out, want)
		}
	}
}

// Results that one command prints after each other are YAML documents of one stream.
func TestTwoResultsAreTwoDocuments(t *testing.T) {
	var out strings.Builder
	p := printerOf(t, &out, "-o yaml")
	for _, v := range []map[string]int{{"a": 1}, {"b": 2}} {
		assert.NoError(t, Show(p, v, nil))
	}
	assert.Equal(t, out.String(), "a: 1\n---\nb: 2\n", "printed %q", &out)
}

// A stream prints a header once, however long it is, and no row twice.
func TestLongStream(t *testing.T) {
	var out strings.Builder
	numbers := make([]int, 2*chunk+2)
	for i := range numbers {
		numbers[i] = i
	}
	header, row := func(t *Table) { t.Columns("N").Add() }, func(t *Table, n int) { t.Cells(n) }
	if n, err := Stream(&Printer{Out: &out}, sequence(numbers...), 2*chunk+1, header, row); n != 2*chunk+1 || err != nil {
		t.Fatalf("%d results, %v", n, err)
	}
	if n := strings.Count(out.String(), "\n"); n != 2*chunk+2 || !strings.HasSuffix(out.String(), "\n2000\n") ||
		strings.Count(out.String(), "N") != 1 {
		t.Errorf("%d lines", n)
	}
}

// A cell cannot forge another cell, another line, or a command for the terminal.
func TestCellsAreHarmless(t *testing.T) {
	table := new(Table)
	table.Columns("A", "B").Add()
	table.Cells("x\ty\nz\x1b[2J", "é")
	var out strings.Builder
	if err := table.Print(&out); err != nil || out.String() != "A          B\nx�y�z�[2J  é\n" {
		t.Errorf("%v %q", err, &out)
	}
}

func TestGrouped(t *testing.T) {
	for n, want := range map[int64]string{
		0: "0", 999: "999", 1000: "1,000", 12431: "12,431", 1234567: "1,234,567", -999: "-999", -1000: "-1,000",
	} {
		assert.Equal(t, Grouped(n), want, "%d", n)
	}
}

// Every JSON value reads back from its YAML as it was.
func FuzzYAML(f *testing.F) {
	for _, text := range []string{`{"a":["~","0x1",1e3,-0,"\u0000","- x: y","2026-01-01"]}`, `""`, `{}`, `[[],{}]`, `"\u2028"`} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var value any
		if json.Unmarshal([]byte(text), &value) != nil {
			return
		}
		doc, err := yamlOf(value)
		assert.NoError(t, err)
		var back any
		assert.NoError(t, yaml.Unmarshal(doc, &back), "%s:\n%s", text, doc)
		want, _ := json.Marshal(normal(value))
		got, err := json.Marshal(normal(back))
		if err != nil || string(got) != string(want) {
			t.Errorf("%s is %s, %v\n%s", text, got, err, doc)
		}
	})
}

// normal makes all numbers floats.
func normal(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for k := range v {
			v[k] = normal(v[k])
		}
	case []any:
		for i := range v {
			v[i] = normal(v[i])
		}
	case float64:
		if v == 0 {
			return 0.0 // and not -0, which is an int in YAML
		}
	case int:
		return float64(v)
	case uint64:
		return float64(v)
	}
	return v
}

// TestTextsAreTame checks that a table, JSON and YAML have no character that a terminal might obey, and JSON and YAML the
// values as they were.
func TestTextsAreTame(t *testing.T) {
	const hostile = "a\x1b[2J\nb\t\u009bc\u202e\U000e0001"
	values := map[string]string{hostile: hostile}
	for form, read := range map[string]func([]byte, any) error{"json": json.Unmarshal, "yaml": yaml.Unmarshal} {
		var b strings.Builder
		p := Printer{Out: &b}
		assert.NoError(t, errors.Join((*formValue)(&p.form).Set(form), p.Encode(values)))
		var got map[string]string
		if err := read([]byte(b.String()), &got); err != nil || got[hostile] != hostile || Lines(b.String()) != b.String() {
			t.Errorf("%s: %q, %v, %q", form, got, err, b.String())
		}
	}
	table := new(Table)
	table.Row("%s\t%v\t%v", hostile, errors.New(hostile), []string{hostile})
	table.Field("name", hostile)
	var b strings.Builder
	if err := table.Print(&b); err != nil || Lines(b.String()) != b.String() || strings.Count(b.String(), "\n") != 2 {
		t.Errorf("%v, %q", err, b.String())
	}
}
