package audit

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/belfryhq/belfry/internal/assert"
)

// A reader who follows the cursor of merged pages gets each record of each node once, also while a node is away, and
// those of one node in their order.
func TestMerge(t *testing.T) {
	logs := map[string]*Log{}
	want := map[string]int{}
	for n := range 3 {
		name := fmt.Sprint("n", n)
		at := time.Unix(1_700_000_000, int64(n)*1_000_000)
		l, err := Open(Config{Path: filepath.Join(t.TempDir(), "log"), Node: name, Now: func() time.Time { return at }})
		assert.NoError(t, err)
		defer mustClose(t, l)
		logs[name] = l
		for i := range 20 {
			route := fmt.Sprintf("%s/%02d", name, i)
			change(t, l, Record{Route: route})
			want[route] = 1
			at = at.Add(time.Second)
			if n == 1 && i == 4 { // three records that are not written
				l.changes.mu.Lock()
				l.changes.next.number += 3
				l.changes.mu.Unlock()
			}
			if n == 2 && i == 10 {
				at = at.Add(-5 * time.Second) // a clock that is set back
			}
		}
	}
	got, lastOf, cursor := map[string]int{}, map[string]string{}, Cursor{}
	var latest time.Time
	var lost uint64
	for round := 0; ; round++ {
		pages := map[string]Page{}
		for name, l := range logs {
			if name == "n1" && round < 3 {
				continue // away
			}
			pages[name], _ = page(t, l, Query{After: cursor[name], Limit: 7})
		}
		m := Merge(cursor, pages, 7)
		lost += m.Lost
		for _, line := range m.Lines {
			r := recordOf(t, line)
			got[r.Route]++
			if r.Route <= lastOf[r.Node] {
				t.Errorf("%s after %s", r.Route, lastOf[r.Node])
			}
			lastOf[r.Node] = r.Route
			if r.Node == "n0" && r.Time.Before(latest) {
				t.Errorf("%v after %v", r.Time, latest)
			}
			if r.Node == "n0" {
				latest = r.Time.Time
			}
		}
		if !m.More && round > 3 {
			break
		}
		var err error
		cursor, err = ParseCursor(m.Next.String())
		assert.NoError(t, err)
	}
	if fmt.Sprint(got) != fmt.Sprint(want) || lost != 3 {
		t.Errorf("lost %d: %v", lost, got)
	}
}

func recordOf(t *testing.T, line []byte) Record {
	t.Helper()
	var r Record
	assert.NoError(t, json.Unmarshal(line, &r))
	return r
}

func TestParseCursor(t *testing.T) {
	for _, text := range []string{"%", "bjE", "bjE9YS0", "LA"} {
		c, err := ParseCursor(text)
		assert.Error(t, err, "%q: %v", text, c)
	}
	if c, err := ParseCursor(""); err != nil || len(c) != 0 {
		t.Errorf("%v, %v", c, err)
	}
}
