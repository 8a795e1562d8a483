package repeating

import (
	"fmt"
	"time"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/internal/contract"
	"github.com/belfryhq/belfry/repeat"
	"github.com/belfryhq/belfry/repeat/calendar"
	"github.com/belfryhq/belfry/repeat/zone"
)

// The limits of a preview.
const (
	usualNext = 20
	mostNext  = 1000
	// mostExcluded is the number of excluded instants that an answer lists. A call with more is refused.
	mostExcluded = 1000
)

// Preview lists the next occurrences of a rule.
type Preview struct {
	Occurrences []Occurrence `json:"occurrences"`
	Excluded    []Exclusion  `json:"excluded"`
	Ended       bool         `json:"ended"` // the rule has no further occurrence
	TimeZone    string       `json:"time_zone"`
	TZData      string       `json:"tz_data"` // release of the time zone database
}

// Occurrence is an instant at which the rule fires.
type Occurrence struct {
	At     string `json:"at"`                     // in UTC
	Local  string `json:"local"`                  // in the rule's zone, with the offset
	Change string `json:"clock_change,omitempty"` // gap, first or second
	Wall   string `json:"wall,omitempty"`         // in a gap: the time that the rule names
}

// Exclusion is an instant that an element of except, or the calendar, took away.
type Exclusion struct {
	At     string `json:"at"`
	Local  string `json:"local"`
	Except string `json:"except"`
}

// NextOf reads the body of a preview that arrived at now, and returns the answer. The instants are those that the rule
// names: its jitter does not move them. calendarOf returns the calendar of a rule, nil for none. The error is a
// *task.FieldError or one of package contract.
func NextOf(body []byte, now time.Time, calendarOf func(*fsmpb.Repeat) *calendar.Calendar) (*Preview, error) {
	given, next, hasRule := new(fsmpb.Repeat), int64(usualNext), false
	err := contract.Members{
		"repeat": func(r *contract.Reader, full string, merged bool) error {
			hasRule = true
			return Member(given, now)(r, full, merged)
		},
		"next": contract.Whole(&next, 1, mostNext),
	}.Root(body, false)
	switch {
	case err != nil:
		return nil, err
	case !hasRule:
		return nil, &task.FieldError{Field: "repeat", Detail: "is absent"}
	}
	rule, err := Rule(given, calendarOf(given), now)
	if err != nil {
		return nil, err
	}
	return list(rule, now, int(next))
}

// list returns the first n occurrences after now, or fewer if the rule has fewer.
func list(rule *repeat.Rule, now time.Time, n int) (*Preview, error) {
	a := &Preview{
		Occurrences: []Occurrence{}, Excluded: []Exclusion{}, TimeZone: rule.Zone().String(), TZData: zone.Version,
	}
	if count := rule.Count(); count > 0 && count <= int64(n) {
		n, a.Ended = int(count), true
	}
	for after := now; len(a.Occurrences) < n; {
		o, ok := rule.Next(after)
		if len(a.Excluded)+len(o.Excluded) > mostExcluded {
			return nil, &task.FieldError{Field: "repeat", Detail: "has too many exclusions of the instants: ask for " +
				"fewer, or narrow the rule itself", Limit: fmt.Sprint(mostExcluded)}
		}
		for _, x := range o.Excluded {
			a.Excluded = append(a.Excluded, Exclusion{At: utc(x.At), Local: local(x.At), Except: x.By})
		}
		if !ok {
			a.Ended = true
			return a, nil
		}
		one := Occurrence{At: utc(o.At), Local: local(o.At), Change: string(o.Change)}
		if !o.Wall.IsZero() && o.Wall.Format(wallFormat) != o.At.Format(wallFormat) {
			one.Wall = o.Wall.Format(wallFormat)
		}
		a.Occurrences, after = append(a.Occurrences, one), o.At
	}
	return a, nil
}

const (
	wallFormat  = "2006-01-02T15:04:05"
	utcFormat   = wallFormat + ".000Z"
	localFormat = wallFormat + ".000-07:00"
)

func utc(t time.Time) string   { return t.UTC().Format(utcFormat) }
func local(t time.Time) string { return t.Format(localFormat) }
