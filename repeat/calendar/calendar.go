package calendar

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/belfryhq/belfry/repeat/hours"
	"github.com/belfryhq/belfry/repeat/zone"
)

// The limits of a calendar.
const (
	MaxClosed = 4096
	MaxHours  = 16
)

// Spec is a calendar as a caller gives it.
type Spec struct {
	TimeZone string   // of the IANA database; empty: the zone of the rule or window that uses the calendar
	Hours    []Hours  // united; empty: all hours
	Closed   []string // dates, ranges of dates, and yearly dates: 2026-12-25, 2026-12-24/2027-01-01, --12-25
}

// Hours is the open hours on some days of the week: see hours.Parse.
type Hours struct {
	Days  string
	Daily []string
}

// FieldError reports a wrong field of a Spec.
type FieldError struct {
	Field  string // as in JSON: "closed[1]"
	Detail string // continues a sentence that begins with the field
	Limit  string // empty: none
}

func (e *FieldError) Error() string {
	if e.Limit != "" {
		return fmt.Sprintf("%s %s (limit %s)", e.Field, e.Detail, e.Limit)
	}
	return e.Field + " " + e.Detail
}

// Calendar is a checked Spec. It never changes. The nil Calendar is always open.
type Calendar struct {
	zone   *time.Location // nil: that of the instants
	week   *hours.Week    // nil: all hours
	closed []dates        // sorted, apart from each other
	yearly map[monthDay]bool
}

// dates is a range of days since 1970, both included.
type dates struct{ first, last int }

type monthDay struct {
	month time.Month
	day   int
}

// New checks a calendar. The error is a *FieldError, unless the embedded time zones cannot be read.
func New(spec Spec) (*Calendar, error) {
	c := &Calendar{yearly: map[monthDay]bool{}}
	switch {
	case len(spec.Hours) == 0 && len(spec.Closed) == 0:
		return nil, &FieldError{Field: "closed", Detail: "is absent, and so is hours: a calendar needs one of them"}
	case len(spec.Closed) > MaxClosed:
		return nil, &FieldError{Field: "closed", Detail: "has too many dates", Limit: fmt.Sprint(MaxClosed)}
	case len(spec.Hours) > MaxHours:
		return nil, &FieldError{Field: "hours", Detail: "has too many elements", Limit: fmt.Sprint(MaxHours)}
	}
	if err := c.setZone(spec.TimeZone); err != nil {
		return nil, err
	}
	if err := c.setHours(spec.Hours); err != nil {
		return nil, err
	}
	return c, c.setClosed(spec.Closed)
}

func (c *Calendar) setZone(name string) (err error) {
	if name == "" {
		return nil
	}
	var unknown *zone.UnknownError
	if c.zone, err = zone.Load(name); errors.As(err, &unknown) {
		return &FieldError{Field: "time_zone", Detail: "is wrong: " + err.Error()}
	}
	return err
}

func (c *Calendar) setHours(all []Hours) error {
	var weeks []*hours.Week
	for i, h := range all {
		week, err := hours.Parse(h.Days, h.Daily)
		var wrong *hours.FieldError
		if errors.As(err, &wrong) {
			return &FieldError{Field: fmt.Sprintf("hours[%d].%s", i, wrong.Field), Detail: wrong.Detail, Limit: wrong.Limit}
		}
		if err != nil {
			return err
		}
		weeks = append(weeks, week)
	}
	c.week = hours.Union(weeks...)
	return nil
}

func (c *Calendar) setClosed(texts []string) error {
	for i, text := range texts {
		if err := c.close(text); err != nil {
			return &FieldError{Field: fmt.Sprintf("closed[%d]", i), Detail: err.Error()}
		}
	}
	slices.SortFunc(c.closed, func(a, b dates) int { return a.first - b.first })
	apart := c.closed[:0]
	for _, d := range c.closed {
		if n := len(apart); n > 0 && d.first <= apart[n-1].last+1 {
			apart[n-1].last = max(apart[n-1].last, d.last)
		} else {
			apart = append(apart, d)
		}
	}
	c.closed = apart
	return nil
}

// close closes a date, a range of dates or a yearly date.
func (c *Calendar) close(text string) error {
	if len(text) > 2 && text[:2] == "--" {
		day, err := time.Parse("2006-01-02", "2000-"+text[2:]) // a leap year
		if err != nil {
			return fmt.Errorf("is wrong: %q must be a yearly date like --12-25", text)
		}
		c.yearly[monthDay{day.Month(), day.Day()}] = true
		return nil
	}
	first, last, err := parseDates(text)
	if err != nil {
		return err
	}
	c.closed = append(c.closed, dates{first, last})
	return nil
}
