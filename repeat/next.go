package repeat

import (
	"time"

	"github.com/belfryhq/belfry/repeat/cron"
)

// MaxExcluded is the largest number of consecutive exclusions. Next looks no further.
const MaxExcluded = 10_000

// Occurrence is an instant at which a rule fires.
type Occurrence struct {
	At time.Time // in the rule's zone
	// Change is the effect of a clock change, and Wall the time that the cron expression names, with UTC for its zone.
	// Both are empty for an interval.
	Change cron.Change
	Wall   time.Time
	// Excluded are the exclusions before this occurrence, after the instant of the call.
	Excluded []Exclusion
}

// Exclusion is an instant that an exclusion took away, with the rest of the second, minute, hour or day that the
// exclusion names.
type Exclusion struct {
	At time.Time // in the rule's zone
	By string    // the element of Except, or "calendar" and its name
	// Until is the end of the excluded time: no occurrence lies between At and Until. Zero: it has no end.
	Until time.Time
}

// Next returns the first occurrence after an instant. It reports false if there is none before the rule's end, within
// 100 years, and after at most MaxExcluded exclusions. The exclusions are then those up to there. Next does not count
// occurrences: the caller compares their number with Count.
func (r *Rule) Next(after time.Time) (o Occurrence, ok bool) {
	if after.Before(r.start) {
		after = r.start.Add(-time.Millisecond)
	}
	for c := r.candidates(); len(o.Excluded) < MaxExcluded; {
		f, ok := c.next(after)
		if !ok || !r.end.IsZero() && f.At.After(r.end) {
			return o, false
		}
		taken, until := r.exclusionOf(f.At)
		if taken == "" {
			o.At, o.Change, o.Wall = f.At, f.Change, f.Wall
			return o, true
		}
		o.Excluded = append(o.Excluded, Exclusion{At: f.At, By: taken, Until: until})
		if until.IsZero() {
			return o, false
		}
		after = behind(f.At, until)
	}
	return o, false
}

// candidates finds the instants that a rule names, exclusions aside. It looks forward only: the instant of a call must
// not be before that of the call before.
type candidates struct {
	rule    *Rule
	firings []cron.Firing // the last one found of each expression, since a rare one is costly to find
}

func (r *Rule) candidates() candidates { return candidates{r, make([]cron.Firing, len(r.crons))} }

// next returns the first candidate after an instant.
func (c *candidates) next(after time.Time) (first cron.Firing, found bool) {
	r := c.rule
	if r.every > 0 {
		return r.nextInterval(after.UnixMilli()), true
	}
	for i, e := range r.crons {
		f, ok := c.firings[i], true
		if !f.At.After(after) {
			f, ok = e.Next(after, r.zone)
			c.firings[i] = f
		}
		if ok && (!found || f.At.Before(first.At) || f.At.Equal(first.At) && f.Change == "") {
			first, found = f, true
		}
	}
	return first, found
}

// nextInterval returns the first instant of the interval after another. The anchor is any of its instants: there are
// instants before it, too.
func (r *Rule) nextInterval(after int64) cron.Firing {
	passed := (after - r.anchor) % r.every // since the last instant
	if passed < 0 {
		passed += r.every
	}
	return cron.Firing{At: time.UnixMilli(after - passed + r.every).In(r.zone)}
}

// exclusionOf returns the exclusion that takes an instant away, and the end of the excluded time, zero for none. The
// text is empty if there is none.
func (r *Rule) exclusionOf(at time.Time) (text string, until time.Time) {
	if opening := r.calendar.Opening; opening != nil {
		if opens, ok := opening.Opens(at); !ok {
			return "calendar " + r.calendar.Name, time.Time{}
		} else if opens.After(at) {
			return "calendar " + r.calendar.Name, opens
		}
	}
	if len(r.exclusionRules) == 0 {
		return "", time.Time{}
	}
	date, wall := at.Format(time.DateOnly), cron.WallOf(at)
	for _, x := range r.exclusionRules {
		switch {
		case x.cron != nil:
			if unit := x.cron.Excepts(wall); unit == cron.Day {
				return x.text, nextDay(at, date)
			} else if unit > 0 {
				return x.text, unitEnd(at, unit)
			}
		case x.first != "":
			if x.first <= date && date <= x.last {
				return x.text, nextDay(at, x.last)
			}
		case x.at.Equal(at):
			return x.text, at
		}
	}
	return "", time.Time{}
}

// unitEnd returns the end of the hour, minute or second that the wall clock shows at an instant. A clock change ends
// the unit: the clock may show another one behind it.
func unitEnd(at time.Time, unit time.Duration) time.Time {
	_, offset := at.Zone()
	length := unit.Milliseconds()
	shown := (at.UnixMilli() + int64(offset)*1000) % length
	if shown < 0 { // before 1970
		shown += length
	}
	end := time.UnixMilli(at.UnixMilli() - shown + length).In(at.Location())
	if _, change := at.ZoneBounds(); change.After(at) && change.Before(end) {
		return change
	}
	return end
}

// nextDay returns the beginning of the day after a date, in the zone of at. A day without a midnight begins at the end
// of the gap. A clock change back to the day before at comes first.
func nextDay(at time.Time, date string) time.Time {
	day, err := time.Parse(time.DateOnly, date)
	if err != nil {
		return at // parseExcept has checked the date
	}
	begin := time.Date(day.Year(), day.Month(), day.Day()+1, 0, 0, 0, 0, at.Location())
	if _, change := at.ZoneBounds(); change.After(at) && change.Before(begin) &&
		change.Format(time.DateOnly) < at.Format(time.DateOnly) {
		return change
	}
	if begin.Format(time.DateOnly) <= date { // time.Date may take a skipped midnight for an hour before the gap
		if _, end := begin.ZoneBounds(); !end.IsZero() && end.After(begin) {
			return end
		}
	}
	return begin
}
