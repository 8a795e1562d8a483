package calendar

import (
	"slices"
	"time"
)

// farthest is the time within which a calendar must open. A calendar that does not is always closed, as far as it
// matters.
const farthest = 10 * 366 * 24 * time.Hour

// Opens returns the first instant at or after t at which the calendar is open, t itself if it is open then. It reports
// false if the calendar stays closed for ten years.
func (c *Calendar) Opens(t time.Time) (opens time.Time, ok bool) {
	if c == nil {
		return t, true
	}
	location := t.Location()
	if c.zone != nil {
		t = t.In(c.zone)
	}
	for ends := t.Add(farthest); !t.After(ends); {
		if last, closed := c.closedUntil(t); closed {
			t = later(t, beginOf(last+1, t.Location()))
			continue
		}
		open := t
		if c.week != nil {
			if open, ok = c.week.Next(t); !ok {
				return time.Time{}, false
			}
		}
		if open.Equal(t) {
			return t.In(location), true
		}
		t = open
	}
	return time.Time{}, false
}

// later returns begin, or the next clock change if the clock has been set back to the day before at begin.
func later(t, begin time.Time) time.Time {
	if begin.After(t) {
		return begin
	}
	if _, change := t.ZoneBounds(); !change.IsZero() {
		return change
	}
	return t.Add(time.Second)
}

// closedUntil returns the last day of the closed days from the date of t on.
func (c *Calendar) closedUntil(t time.Time) (last int, closed bool) {
	day := dayOf(t)
	if at, found := slices.BinarySearchFunc(c.closed, day, func(d dates, day int) int {
		switch {
		case d.last < day:
			return -1
		case d.first > day:
			return 1
		}
		return 0
	}); found {
		return c.closed[at].last, true
	}
	if c.yearly[monthDay{t.Month(), t.Day()}] {
		return day, true
	}
	return 0, false
}
