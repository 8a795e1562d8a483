package window

import (
	"errors"
	"time"

	"github.com/belfryhq/belfry/repeat/calendar"
	"github.com/belfryhq/belfry/repeat/hours"
	"github.com/belfryhq/belfry/repeat/zone"
)

// farthest is the time within which a window must open. A window that does not is always closed, as far as it matters.
const farthest = 10 * 366 * 24 * time.Hour

// Spec is a window as a caller gives it. Its fields are those of hours.Parse and the name of a zone; empty: UTC.
type Spec struct {
	TimeZone string
	Daily    []string
	Days     string
}

// Window is a checked Spec with its calendar. It never changes.
type Window struct {
	zone     *time.Location
	week     *hours.Week
	calendar *calendar.Calendar // nil: always open
}

// New checks a window. The error is a *hours.FieldError, unless the embedded time zones cannot be read.
func New(spec Spec, c *calendar.Calendar) (*Window, error) {
	week, err := hours.Parse(spec.Days, spec.Daily)
	if err != nil {
		return nil, err
	}
	w := &Window{zone: time.UTC, week: week, calendar: c}
	if spec.TimeZone == "" {
		return w, nil
	}
	var unknown *zone.UnknownError
	if w.zone, err = zone.Load(spec.TimeZone); errors.As(err, &unknown) {
		return nil, &hours.FieldError{Field: "time_zone", Detail: "is wrong: " + err.Error()}
	}
	return w, err
}

// Opens returns the first instant at or after t at which the window is open, t itself if it is open then. It reports
// false if the window stays closed for ten years.
func (w *Window) Opens(t time.Time) (opens time.Time, ok bool) {
	location := t.Location()
	t = t.In(w.zone)
	for ends := t.Add(farthest); !t.After(ends); {
		begin, ok := w.week.Next(t)
		if !ok {
			return time.Time{}, false
		}
		if t, ok = w.calendar.Opens(begin); !ok {
			return time.Time{}, false
		}
		if t.Equal(begin) {
			return t.In(location), true
		}
	}
	return time.Time{}, false
}
