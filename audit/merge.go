package audit

import (
	"cmp"
	"encoding/base64"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Cursor is a place in each node's log, by node id. A node without an entry is read from its oldest record.
type Cursor map[string]string

// String returns the cursor as callers get it.
func (c Cursor) String() string {
	var parts []string
	for _, node := range slices.Sorted(maps.Keys(c)) {
		parts = append(parts, node+"="+c[node])
	}
	return base64.RawURLEncoding.EncodeToString([]byte(strings.Join(parts, ",")))
}

// ParseCursor reads a text that String has returned. The empty text is the cursor before all records.
func ParseCursor(text string) (Cursor, error) {
	data, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil {
		return nil, fmt.Errorf("no cursor: %w", err)
	}
	c := Cursor{}
	if len(data) == 0 {
		return c, nil
	}
	for part := range strings.SplitSeq(string(data), ",") {
		node, after, ok := strings.Cut(part, "=")
		if _, err := parsePlace(after); err != nil || !ok || node == "" || c[node] != "" {
			return nil, fmt.Errorf("no cursor")
		}
		c[node] = after
	}
	return c, nil
}

// Merged is records of several nodes.
type Merged struct {
	Lines [][]byte
	Next  Cursor // behind the records
	More  bool   // further records are there
	Lost  uint64 // missing records between them
}

// Merge returns at most limit records of the nodes' pages in the order of their times. A node without a page keeps its
// position in after, so that a later call brings its records.
func Merge(after Cursor, pages map[string]Page, limit int) Merged {
	all := merge(pages, limit)
	m := Merged{Next: maps.Clone(after), More: all.more}
	if m.Next == nil {
		m.Next = Cursor{}
	}
	for _, r := range all.taken {
		m.Lines = append(m.Lines, r.line)
		m.Lost += r.lost
		at, _ := parsePlace(m.Next[r.node]) // a cursor that was parsed
		m.Next[r.node] = at.after(r.at).String()
	}
	for node, page := range pages {
		if !all.left[node] && page.Next != "" {
			m.Next[node] = page.Next
		}
	}
	return m
}

// merged is the first records of several pages.
type merged struct {
	taken []located
	left  map[string]bool // pages of which records are left
	more  bool            // further records are there
}

func merge(pages map[string]Page, limit int) merged {
	all := ordered(pages)
	m := merged{taken: all[:min(len(all), limit)], left: map[string]bool{}}
	for _, r := range all[len(m.taken):] {
		m.left[r.node], m.more = true, true
	}
	for _, page := range pages {
		m.more = m.more || page.More
	}
	return m
}

// located is a record of a page.
type located struct {
	node string // of the page, or its journal
	line []byte
	at   position
	time Instant
	lost uint64 // records that are missing before it
}

// ordered returns the records of all pages by time. Those of one page keep their order, whatever its clock did.
func ordered(pages map[string]Page) []located {
	var all []located
	for _, node := range slices.Sorted(maps.Keys(pages)) {
		var latest Instant
		for i, line := range pages[node].Lines {
			at, when, err := parseHead(line)
			if err != nil || i >= len(pages[node].Lost) {
				continue // Read has parsed it, so it comes from a newer build; the position passes it
			}
			if when.After(latest.Time) {
				latest = Instant{when}
			}
			all = append(all, located{node, line, at, latest, pages[node].Lost[i]})
		}
	}
	slices.SortStableFunc(all, func(a, b located) int {
		return cmp.Or(a.time.Compare(b.time.Time), cmp.Compare(a.node, b.node))
	})
	return all
}
