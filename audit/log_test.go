package audit

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/belfryhq/belfry/internal/assert"
)

// open opens a log in a folder.
func open(t *testing.T, dir string, change func(*Config)) *Log {
	t.Helper()
	cfg := Config{Path: filepath.Join(dir, "audit.jsonl"), Node: "n1"}
	if change != nil {
		change(&cfg)
	}
	l, err := Open(cfg)
	assert.NoError(t, err)
	return l
}

func mustClose(t *testing.T, l *Log) {
	t.Helper()
	assert.NoError(t, l.Close())
}

// page reads a page and its records.
func page(t *testing.T, l *Log, q Query) (Page, []Record) {
	t.Helper()
	if q.Limit == 0 {
		q.Limit = MaxLimit
	}
	p, err := l.Read(t.Context(), q)
	assert.NoError(t, err)
	var records []Record
	for _, line := range p.Lines {
		var r Record
		assert.NoError(t, json.Unmarshal(line, &r))
		records = append(records, r)
	}
	return p, records
}

// change records a change as a call does.
func change(t *testing.T, l *Log, r Record) {
	t.Helper()
	assert.NoError(t, l.Reserve(t.Context()))
	l.Change(r)
}

func lostIn(p Page) (all uint64) {
	for _, n := range p.Lost {
		all += n
	}
	return all
}

func routes(records []Record) string {
	var all []string
	for _, r := range records {
		all = append(all, r.Route)
	}
	return strings.Join(all, " ")
}

// A change is in the file when Change returns, with all that it names.
func TestChangeIsWritten(t *testing.T) {
	dir := t.TempDir()
	var also bytes.Buffer
	l := open(t, dir, func(c *Config) {
		c.Also = &also
		c.Now = func() time.Time { return time.UnixMilli(1_700_000_000_123) }
	})
	change(t, l, Record{
		Caller: Caller{"key", "k1", "deployer"}, From: "10.0.0.7", Method: "PUT", Route: "/v1/queues/{queue}",
		Object: map[string]string{"queue": "orders"}, Fields: []string{"signing", "target"}, Status: 200, Request: "r-1",
	})
	data, err := os.ReadFile(filepath.Join(dir, "audit.jsonl"))
	assert.NoError(t, err)
	mustClose(t, l) // which waits for the copy
	var r Record
	assert.NoError(t, json.Unmarshal(data, &r))
	want := `{"id":"` + r.ID + `","time":"2023-11-14T22:13:20.123Z","node":"n1","kind":"change",` +
		`"caller":{"kind":"key","id":"k1","name":"deployer"},"from":"10.0.0.7","method":"PUT","route":"/v1/queues/{queue}",` +
		`"object":{"queue":"orders"},"fields":["signing","target"],"status":200,"request":"r-1"}` + "\n"
	if string(data) != want || also.String() != want || !strings.HasSuffix(r.ID, "-1") {
		t.Errorf("%s%s, want %s", data, also.String(), want)
	}
}

// No text that a caller chooses brings a key or a secret into a record, or makes it long.
func TestTextsAreCleaned(t *testing.T) {
	l := open(t, t.TempDir(), nil)
	defer mustClose(t, l)
	long := strings.Repeat("é", 10_000)
	change(t, l, Record{
		Request: "x bfy_abc_def", Caller: Caller{Name: "Bearer abc"}, Route: long,
		Object: map[string]string{"id": "whsec_abc"}, Fields: []string{"WHSEC_abc"},
	})
	p, records := page(t, l, Query{})
	r := records[0]
	for _, text := range []string{r.Request, r.Caller.Name, r.Object["id"], r.Fields[0]} {
		assert.Equal(t, text, redacted)
	}
	if len(p.Lines[0]) > 1000 || !strings.HasSuffix(r.Route, "é…") {
		t.Errorf("%s", p.Lines[0])
	}
}

// The files are bounded in number and size. A reader who follows the cursor gets all records that are left, and learns
// how many were removed before it came.
func TestRotation(t *testing.T) {
	dir := t.TempDir()
	small := func(c *Config) { c.FileBytes, c.Files = 1000, 3 }
	l := open(t, dir, small)
	change(t, l, Record{Route: "r0"})
	begin, _ := page(t, l, Query{})
	for i := 1; i < 60; i++ {
		change(t, l, Record{Route: fmt.Sprint("r", i)})
		if i == 30 { // a restart goes on
			mustClose(t, l)
			l = open(t, dir, small)
		}
	}
	defer func() { mustClose(t, l) }()
	names, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(names) != 4 { // that of refusals is empty
		t.Errorf("%v, %v", names, err)
	}
	for _, name := range names {
		if info, err := os.Stat(name); err != nil || info.Size() > 1000 || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
	var all []Record
	var lost uint64
	q := Query{After: begin.Next, Limit: 4}
	for more := true; more; {
		p, records := page(t, l, q)
		if len(records) > q.Limit {
			t.Fatalf("%d records", len(records))
		}
		all, lost, q.After, more = append(all, records...), lost+lostIn(p), p.Next, p.More
	}
	kept := len(all)
	if kept < 10 || kept > 30 || lost != uint64(59-kept) || all[0].Route != fmt.Sprint("r", 60-kept) {
		t.Errorf("kept %d, lost %d: %s", kept, lost, routes(all))
	}
	if p, records := page(t, l, q); len(records) != 0 || p.Next != q.After {
		t.Errorf("%+v", p)
	}
	change(t, l, Record{Route: "later"})
	if p, records := page(t, l, q); routes(records) != "later" || lostIn(p) != 0 {
		t.Errorf("%s, lost %d", routes(records), lostIn(p))
	}
	_, records := page(t, l, Query{After: "other-100"})
	assert.Equal(t, len(records), kept+1, "after a position of another log")
	if _, err := l.Read(t.Context(), Query{After: "nonsense", Limit: 1}); err == nil {
		t.Error("a position that is none")
	}
}

// Since selects by time, and cuts nothing else.
func TestSince(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	l := open(t, t.TempDir(), func(c *Config) {
		c.Now, c.FileBytes = func() time.Time { return now }, 1 // each record in a file of its own
	})
	defer mustClose(t, l)
	for _, route := range []string{"a", "b", "c"} {
		change(t, l, Record{Route: route})
		now = now.Add(time.Hour)
	}
	since := Query{Since: time.Unix(1_700_003_600, 0)}
	if p, records := page(t, l, since); routes(records) != "b c" || lostIn(p) != 0 {
		t.Errorf("%s, lost %d", routes(records), lostIn(p))
	}
	since.After, since.Since = l.changes.upcoming().log+"-1", time.Unix(1_700_007_200, 0)
	if p, records := page(t, l, since); routes(records) != "c" || lostIn(p) != 0 {
		t.Errorf("%s, lost %d", routes(records), lostIn(p))
	}
}

// A line that was torn by a crash is cut off. A file that is none of a log is refused, and stays as it is.
func TestTornLine(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "audit.jsonl")
	for _, torn := range []string{`{"id":"`, "\x00\x00\x00"} {
		l := open(t, dir, nil)
		change(t, l, Record{Route: "a"})
		mustClose(t, l)
		whole, err := os.ReadFile(path)
		assert.NoError(t, err)
		assert.NoError(t, os.WriteFile(path, append(whole, torn...), 0o600))
	}
	l := open(t, dir, nil)
	change(t, l, Record{Route: "b"})
	if p, records := page(t, l, Query{}); routes(records) != "a a b" || lostIn(p) != 0 {
		t.Errorf("%s, lost %d", routes(records), lostIn(p))
	}
	mustClose(t, l)

	for _, foreign := range []string{"a file of another program\n", "without a line", "{}\n"} {
		assert.NoError(t, os.WriteFile(path, []byte(foreign), 0o600))
		if l, err := Open(Config{Path: path}); err == nil {
			mustClose(t, l)
			t.Errorf("the foreign file %q was opened", foreign)
		}
		if data, err := os.ReadFile(path); err != nil || string(data) != foreign {
			t.Errorf("%q, %v", data, err)
		}
	}
}

// TestDamagedLines checks that a log with damaged lines goes on, and sets the ones at its end aside. Records that the
// damage has left are read, the others between them count as lost, and Check tells of the lines.
func TestDamagedLines(t *testing.T) {
	const several = "\x00\x00{\"id\":\nno record\n"
	long := strings.Repeat("x", 3*maxLine)
	add := func(text string) func([]string) []string {
		return func(lines []string) []string { return append(lines, text) }
	}
	put := func(i int, text string) func([]string) []string {
		return func(lines []string) []string { return slices.Replace(lines, i, i+1, text) }
	}
	renumber := func(i int, from, to string) func([]string) []string {
		return func(lines []string) []string {
			return slices.Replace(lines, i, i+1, strings.Replace(lines[i], from+`"`, to+`"`, 1))
		}
	}
	for name, test := range map[string]struct {
		spoil         func(lines []string) []string
		routes, aside string
		lost          uint64
	}{
		"last":              {spoil: add(several), routes: "a b c d", aside: several},
		"last, torn":        {spoil: add("no record\n{\"id\":"), routes: "a b c d", aside: "no record\n"},
		"last and long":     {spoil: add(long + "\n"), routes: "a b c d", aside: long + "\n"},
		"long and torn":     {spoil: add("no record\n" + long), routes: "a b c d", aside: "no record\n"},
		"first":             {spoil: put(0, "no record\n"), routes: "b c d"},
		"middle":            {spoil: put(1, "no record\n"), routes: "a c d", lost: 1},
		"middle, long":      {spoil: put(1, long+"\n"), routes: "a c d", lost: 1},
		"middle, high":      {spoil: renumber(1, "-2", "-7"), routes: "a c d", lost: 1},
		"middle, low":       {spoil: renumber(1, "-2", "-0"), routes: "a c d", lost: 1},
		"first, high":       {spoil: renumber(0, "-1", "-9"), routes: "b c d"},
		"middle, other log": {spoil: renumber(1, "-2", "x-2"), routes: "a c d", lost: 1},
		"first, other log":  {spoil: renumber(0, "-1", "x-1"), routes: "b c d"},
		"last, low":         {spoil: renumber(2, "-3", "-1"), routes: "a b d", aside: `{"id":"`},
		"last, other log":   {spoil: renumber(2, "-3", "x-3"), routes: "a b d", aside: `{"id":"`},
		"only one": {
			spoil: func(l []string) []string { return []string{l[0][:20] + "\n"} }, routes: "d", aside: `{"id":"`,
		},
	} {
		dir := t.TempDir()
		path := filepath.Join(dir, "audit.jsonl")
		l := open(t, dir, nil)
		for _, route := range []string{"a", "b", "c"} {
			change(t, l, Record{Route: route})
		}
		mustClose(t, l)
		assert.Equal(t, Check(path), nil)
		whole, err := os.ReadFile(path)
		assert.NoError(t, err)
		spoilt := strings.Join(test.spoil(strings.SplitAfter(string(whole), "\n")), "")
		assert.NoError(t, os.WriteFile(path, []byte(spoilt), 0o600))
		assert.Error(t, Check(path), "%s: a damaged line is sound", name)
		l = open(t, dir, nil)
		change(t, l, Record{Route: "d"})
		if p, records := page(t, l, Query{}); routes(records) != test.routes || lostIn(p) != test.lost {
			t.Errorf("%s: %s, lost %d", name, routes(records), lostIn(p))
		}
		mustClose(t, l)
		aside, err := os.ReadFile(DamagedPath(path))
		if (err == nil) != (test.aside != "") || !strings.HasPrefix(string(aside), test.aside) {
			t.Errorf("%s: set aside: %.60q, %v", name, aside, err)
		}
		if err := Check(path); (err == nil) != (test.aside != "") {
			t.Errorf("%s: after the start: %v", name, err)
		}
	}
}

// TestReadNamesDamagedLines checks that a reader with pages of one record reads on behind damaged lines, up to the end,
// and that the node's log names each of them.
func TestReadNamesDamagedLines(t *testing.T) {
	var notes bytes.Buffer
	logged := func(cfg *Config) { cfg.Logger = slog.New(slog.NewTextHandler(&notes, nil)) }
	dir := t.TempDir()
	l := open(t, dir, logged)
	for _, route := range []string{"a", "b", "c", "d"} {
		change(t, l, Record{Route: route})
	}
	whole, err := os.ReadFile(l.cfg.Path)
	assert.NoError(t, err)
	for _, flipped := range []string{`-2"`, `-4"`} {
		whole = bytes.Replace(whole, []byte(flipped), []byte(`-8"`), 1)
	}
	assert.NoError(t, os.WriteFile(l.cfg.Path, whole, 0o600))
	q := Query{Limit: 1}
	var all []Record
	for {
		p, records := page(t, l, q)
		all = append(all, records...)
		if q.After = p.Next; !p.More {
			break
		}
	}
	mustClose(t, l)
	assert.Equal(t, routes(all), "a c", "read")
	for _, line := range []string{"line=2", "line=4"} {
		assert.Contains(t, notes.String(), "path="+l.cfg.Path+" "+line, "the log names no %s:\n%s", line, &notes)
	}
}

// TestDamagedOlderFile checks that the log goes on after the last record of an older file whose last line is damaged.
func TestDamagedOlderFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "audit.jsonl")
	l := open(t, dir, nil)
	change(t, l, Record{Route: "a"})
	mustClose(t, l)
	whole, err := os.ReadFile(path)
	assert.NoError(t, err)
	older := os.WriteFile(path+".0000000000000001", append(whole, "no record\n"...), 0o600)
	assert.NoError(t, errors.Join(os.Remove(path), older))
	l = open(t, dir, nil)
	defer mustClose(t, l)
	change(t, l, Record{Route: "b"})
	p, records := page(t, l, Query{})
	if routes(records) != "a b" || lostIn(p) != 0 || !strings.HasSuffix(records[1].ID, "-2") {
		t.Errorf("%s, lost %d: %v", routes(records), lostIn(p), records)
	}
}

// TestMovedFile checks that the log begins a new file within a second after another program has moved, removed or
// emptied the newest one, and that no record gets lost in the moved one.
func TestMovedFile(t *testing.T) {
	for name, spoil := range map[string]func(path string) error{
		"moved":   func(path string) error { return os.Rename(path, path+".old") },
		"removed": os.Remove,
		"emptied": func(path string) error { return os.Truncate(path, 0) },
		"replaced": func(path string) error {
			return errors.Join(os.Rename(path, path+".old"), os.WriteFile(path, nil, 0o600))
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			l := open(t, t.TempDir(), nil)
			change(t, l, Record{Route: "a"})
			assert.NoError(t, spoil(l.cfg.Path))
			time.Sleep(2 * time.Second) // of the bubble's clock
			change(t, l, Record{Route: "b"})
			if _, records := page(t, l, Query{}); routes(records) != "b" || !strings.HasSuffix(records[0].ID, "-2") {
				t.Errorf("%s: %s %v", name, routes(records), records)
			}
			old, err := os.ReadFile(l.cfg.Path + ".old")
			if err == nil && !strings.Contains(string(old), `"route":"a"`) {
				t.Errorf("%s: the moved file: %s", name, old)
			}
			mustClose(t, l)
		})
	}
}
