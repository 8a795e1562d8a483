package audit

import (
	"cmp"
	"encoding/base64"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Cursor is a position in each node's log, by node id. A node without an entry is read from its oldest record.
type Cursor map[string]string

// String returns the cursor as callers get it.
func (c Cursor) String() string {
	var parts []string
	for _, node := range slices.Sorted(maps.Keys(c)) {
		parts = append(parts, node+"="+c[node])
	}
	return base64.RawURLEncoding.EncodeToString([]byte(strings.Join(parts, ",")))
}

// ParseCursor reads what String returns. The empty text is the cursor before all records.
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
		if _, err := parsePosition(after); err != nil || !ok || node == "" || c[node] != "" {
			return nil, fmt.Errorf("no cursor")
		}
		c[node] = after
	}
	return c, nil
}

// Merge returns at most limit records of the nodes' pages in the order of their times, and the cursor behind them. A
// node without a page keeps its position in after, so that a later call brings its records.
func Merge(after Cursor, pages map[string]Page, limit int) (lines [][]byte, next Cursor, more bool) {
	next = maps.Clone(after)
	if next == nil {
		next = Cursor{}
	}
	all := ordered(pages)
	taken := all[:min(len(all), limit)]
	left := map[string]bool{}
	for _, r := range all[len(taken):] {
		left[r.node], more = true, true
	}
	for _, r := range taken {
		lines = append(lines, r.line)
		next[r.node] = r.at.String()
	}
	for node, page := range pages {
		more = more || page.More
		if !left[node] && page.Next != "" {
			next[node] = page.Next
		}
	}
	return lines, next, more
}

// located is a record of a node.
type located struct {
	node string
	line []byte
	at   position
	time Instant
}

// ordered returns the records of all pages by time. Those of one node keep their order, whatever its clock did.
func ordered(pages map[string]Page) []located {
	var all []located
	for _, node := range slices.Sorted(maps.Keys(pages)) {
		var latest Instant
		for _, line := range pages[node].Lines {
			at, when, err := parseHead(line)
			if err != nil {
				continue // Read has parsed it, so it comes from a newer build; its node's position passes it
			}
			if when.After(latest.Time) {
				latest = Instant{when}
			}
			all = append(all, located{node, line, at, latest})
		}
	}
	slices.SortStableFunc(all, func(a, b located) int {
		return cmp.Or(a.time.Compare(b.time.Time), cmp.Compare(a.node, b.node))
	})
	return all
}
