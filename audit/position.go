package audit

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// position is the place of a record: the name of its log, and its number there, from 1.
type position struct {
	log    string
	number uint64
}

func (p position) String() string { return p.log + "-" + strconv.FormatUint(p.number, 10) }

// parsePosition reads the id of a record. The empty text is the place before every log.
func parsePosition(text string) (position, error) {
	if text == "" {
		return position{}, nil
	}
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
	if err == nil && at.log == "" {
		err = errors.New("it has no id")
	}
	return at, h.Time.Time, err
}

// refusalsPrefix begins the names of the logs of refusals, which tells their positions from those of changes.
const refusalsPrefix = "r."

// place is a position in each journal of a node. The zero position is before all records.
type place struct{ changes, refusals position }

// String returns the place as parsePlace reads it. The zero place is the empty text.
func (p place) String() string {
	var parts []string
	for _, at := range []position{p.changes, p.refusals} {
		if at.log != "" {
			parts = append(parts, at.String())
		}
	}
	return strings.Join(parts, "+")
}

func parsePlace(text string) (place, error) {
	var p place
	if text == "" {
		return p, nil
	}
	for part := range strings.SplitSeq(text, "+") {
		at, err := parsePosition(part)
		if err != nil || p.in(at).log != "" || at.log == "" {
			return place{}, fmt.Errorf("%q is no place in a log", Clean(text))
		}
		p = p.after(at)
	}
	return p, nil
}

// in returns the position in the journal of another position.
func (p place) in(at position) position {
	if strings.HasPrefix(at.log, refusalsPrefix) {
		return p.refusals
	}
	return p.changes
}

// after returns the place with its position in the journal of at replaced.
func (p place) after(at position) place {
	if strings.HasPrefix(at.log, refusalsPrefix) {
		p.refusals = at
	} else {
		p.changes = at
	}
	return p
}
