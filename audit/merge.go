package audit

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// position is the place of a record: the name of its log, and its number there, from 1.
type position struct {
	log    string
	number uint64
}

// String returns the id of the record, or the empty text for the zero position, which is before all records.
func (p position) String() string {
	if p.log == "" {
		return ""
	}
	return p.log + "-" + strconv.FormatUint(p.number, 10)
}

// parsePosition reads the id of a record.
func parsePosition(text string) (position, error) {
	log, digits, ok := strings.Cut(text, "-")
	number, err := strconv.ParseUint(digits, 10, 64)
	if !ok || err != nil || log == "" {
		return position{}, fmt.Errorf("%q is no id of a record", Clean(text))
	}
	return position{log, number}, nil
}

// head is the part of a record that readers need.
type head struct {
	ID   string  `json:"id"`
	Time Instant `json:"time"`
}

func parseHead(line []byte) (position, time.Time, error) {
	var h head
	if err := json.Unmarshal(line, &h); err != nil {
		return position{}, time.Time{}, err
	}
	at, err := parsePosition(h.ID)
	return at, h.Time.Time, err
}

// refusalsPrefix begins the names of the logs of refusals, which tells their positions from those of changes.
const refusalsPrefix = "r."

// place is a position in the journal of changes and one in that of refusals. The zero position is before all records.
type place [2]position

// journalOf returns the index in a place of the journal with a name.
func journalOf(log string) int {
	if strings.HasPrefix(log, refusalsPrefix) {
		return 1
	}
	return 0
}

// String returns the place as parsePlace reads it. The zero place is the empty text.
func (p place) String() string { return strings.Trim(p[0].String()+"+"+p[1].String(), "+") }

func parsePlace(text string) (p place, err error) {
	if text == "" {
		return p, nil
	}
	for part := range strings.SplitSeq(text, "+") {
		at, err := parsePosition(part)
		if err != nil || p[journalOf(at.log)].log != "" {
			return place{}, fmt.Errorf("%q is no place in a log", Clean(text))
		}
		p[journalOf(at.log)] = at
	}
	return p, nil
}

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
	page, next := mergePages(after, pages, limit)
	m := Merged{Lines: page.Lines, Next: next, More: page.More}
	for _, n := range page.Lost {
		m.Lost += n
	}
	return m
}

// mergePages returns the first records of several pages as one, and the place behind them in each.
func mergePages(after Cursor, pages map[string]Page, limit int) (Page, Cursor) {
	all := ordered(pages)
	taken, left := all[:min(len(all), limit)], all[min(len(all), limit):]
	page, next := Page{More: len(left) > 0}, Cursor{}
	maps.Copy(next, after)
	for _, r := range taken {
		page.Lines, page.Lost = append(page.Lines, r.line), append(page.Lost, r.lost)
		at, _ := parsePlace(next[r.node]) // a cursor that was parsed
		at[journalOf(r.at.log)] = r.at
		next[r.node] = at.String()
	}
	for node, p := range pages {
		page.More = page.More || p.More
		if p.Next != "" && !slices.ContainsFunc(left, func(r located) bool { return r.node == node }) {
			next[node] = p.Next
		}
	}
	return page, next
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
