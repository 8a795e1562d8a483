package series

import (
	"fmt"
	"time"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/repeat"
	"github.com/belfryhq/belfry/repeat/calendar"
	"github.com/belfryhq/belfry/repeat/hours"
	"github.com/belfryhq/belfry/repeat/window"
)

// RuleOf returns the rule of a schedule, by its calendar. The jitter is no part of it. The error is that of SpecOf or
// of repeat.New.
func RuleOf(r *fsmpb.Repeat, c *calendar.Calendar) (*repeat.Rule, error) {
	spec, err := SpecOf(r, c)
	if err != nil {
		return nil, err
	}
	return repeat.New(spec)
}

// Made returns the rule of a schedule as RuleOf does. An interval without an anchor counts from its start, or else from
// made, the instant at which the rule is made.
func Made(r *fsmpb.Repeat, c *calendar.Calendar, made time.Time) (*repeat.Rule, error) {
	spec, err := SpecOf(r, c)
	switch {
	case err != nil:
		return nil, err
	case r.EveryMs == 0 || r.AnchorMs != nil:
	case r.StartMs != nil:
		spec.Anchor = spec.Start
	default:
		spec.Anchor = made.Truncate(time.Millisecond)
	}
	return repeat.New(spec)
}

// SpecOf returns the unchecked rule of a schedule, by its calendar. The error is a *repeat.FieldError for a rule whose
// calendar is nil.
func SpecOf(r *fsmpb.Repeat, c *calendar.Calendar) (repeat.Spec, error) {
	spec := repeat.Spec{
		Cron: r.Cron, Every: time.Duration(r.EveryMs) * time.Millisecond, Anchor: timeOf(r.AnchorMs),
		TimeZone: r.TimeZone, Start: timeOf(r.StartMs), End: timeOf(r.EndMs), Count: r.Count, Except: r.Except,
	}
	switch {
	case r.Calendar == "":
	case c == nil:
		return spec, &repeat.FieldError{Field: "calendar", Detail: fmt.Sprintf("is wrong: %q does not exist", r.Calendar)}
	default:
		spec.Calendar = repeat.Calendar{Name: r.Calendar, Opening: c}
	}
	return spec, nil
}

// CalendarOf returns the unchecked calendar of a message.
func CalendarOf(c *fsmpb.Calendar) calendar.Spec {
	spec := calendar.Spec{TimeZone: c.TimeZone, Closed: c.Closed}
	for _, h := range c.Hours {
		spec.Hours = append(spec.Hours, calendar.Hours{Days: h.Days, Daily: h.Daily})
	}
	return spec
}

// WindowOf returns the window of a message, by its calendar. The error is that of window.New, or a *hours.FieldError if
// the window names a calendar and that is nil.
func WindowOf(w *fsmpb.Window, c *calendar.Calendar) (*window.Window, error) {
	if w.Calendar != "" && c == nil {
		return nil, &hours.FieldError{Field: "calendar", Detail: fmt.Sprintf("is wrong: %q does not exist", w.Calendar)}
	}
	return window.New(window.Spec{TimeZone: w.TimeZone, Daily: w.Daily, Days: w.Days}, c)
}

// timeOf returns an optional instant, or the zero time if it is absent.
func timeOf(ms *int64) time.Time {
	if ms == nil {
		return time.Time{}
	}
	return time.UnixMilli(*ms)
}
