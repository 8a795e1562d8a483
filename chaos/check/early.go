package check

import (
	"time"

	"github.com/belfryhq/belfry/chaos/history"
)

// Early checks invariant 2: no task arrives before its due time. Each due time must be one that a call asked for and
// that no later call had changed. An arrival may be early by the offset of a node's clock while that clock is off (see
// Clocks).
func Early(x *Index) Finding {
	f := Finding{Invariant: "2", Promise: "nothing is early"}
	arrivals, certain, changed := 0, 0, 0
	ahead, skewed := 0, 0 // arrivals due after their acknowledgement; of these, arrivals while a clock was off
	var earliest time.Duration
	for _, t := range x.order {
		for _, a := range t.arrivals {
			arrivals++
			early := a.Due.Sub(a.At)
			earliest = max(earliest, early)
			behindBy, aheadBy := x.clocks.Off(a.At, a.At)
			if w := x.writes[a.Wrote]; w != nil && w.end < a.Due {
				ahead++
				if behindBy+aheadBy > 0 {
					skewed++
				}
			}
			if early > aheadBy {
				f.breach(a.At, t.id, "arrived %v before it was due", early)
			}
			asked, exact := x.askedFor(t, a)
			if exact {
				certain++
			}
			if !asked {
				f.breach(a.At, t.id, "arrived as due at %s, which no call had asked for",
					a.Due.Time().Format("15:04:05.000"))
			}
		}
		changed += x.forgotten(&f, t)
	}
	f.Observe(ahead, "arrivals of tasks that were due after their acknowledgement")
	f.Observe(skewed, "such arrivals while a clock was off")
	f.figures("%d arrivals, %d of them held against the exact instant that was asked for; %d changes of a due time; "+
		"%v early at most, by a clock that was off", arrivals, certain, changed, earliest)
	return f
}

// askedFor reports whether a call may have set an arrival's due time. exact is also set if there was only one such call
// and it named the instant.
func (x *Index) askedFor(t *task, a *arrival) (asked, exact bool) {
	setters := 0
	for _, o := range t.ops {
		if o.kind == history.Cancel || !o.possible() || o.start > a.At {
			continue
		}
		setters++
		exact = o.ask.FireAt != 0
		asked = asked || x.maySet(o, a)
	}
	return asked, exact && setters == 1
}

// rounding is the precision of due times: the service keeps whole milliseconds. A due time that the service rounds up
// from its own clock exceeds the clock by less than rounding.
const rounding = history.Instant(time.Millisecond)

// maySet reports whether an operation may have set an arrival's due time.
func (x *Index) maySet(o *op, a *arrival) bool {
	behind, ahead := x.clocks.Off(o.start, min(o.end, a.At))
	return o.mayMean(a.Due, behind, ahead)
}

// mayMean reports whether an operation may have set the given due time, at any instant of its duration, by a clock that
// was behind or ahead by at most the given offsets.
func (o *op) mayMean(due history.Instant, behind, ahead time.Duration) bool {
	if o.ask.FireAt != 0 {
		return due == o.ask.FireAt
	}
	end := o.end
	if o.doubtful() || o.open {
		end = history.Forever
	}
	from := o.start.Add(o.ask.Delay - behind)
	if o.kind == history.Fire {
		from -= rounding // an instant of "now" is rounded down
	}
	return due >= from && (end == history.Forever || due <= end.Add(o.ask.Delay+ahead)+rounding)
}

// forgotten finds arrivals with a due time from before an acknowledged change, and returns the number of changes that
// can be judged. The service acknowledges a change only before an attempt begins, so all attempts must have the new due
// time.
func (x *Index) forgotten(f *Finding, t *task) (changes int) {
	for _, c := range t.ops {
		w := t.changedBy(c)
		if w == nil {
			continue
		}
		changes++
		for _, a := range t.arrivals {
			if !x.carries(a.Wrote, w, c) || a.released(c.end) && a.At <= c.end || x.setSince(t, c, a) {
				continue
			}
			f.breach(a.At, t.id, "arrived as due at %s, which operation %d (%s) had changed",
				a.Due.Time().Format("15:04:05.000"), c.n, c.kind)
		}
	}
	return changes
}

// changedBy returns the operation whose occurrence c gave another due time. It returns nil if c certainly gave none, or
// if the operation is not certain.
func (t *task) changedBy(c *op) *op {
	moves := c.kind == history.Patch || c.kind == history.Touch
	if !moves || c.outcome != history.OK || c.recurs || c.schedules() || c.ask.Delay == 0 && c.ask.FireAt == 0 {
		return nil
	}
	return t.occurrenceOf(c)
}

// setSince reports whether c, or a call that is not certainly before c, may have set an arrival's due time.
func (x *Index) setSince(t *task, c *op, a *arrival) bool {
	for _, o := range t.ops {
		if o.kind != history.Cancel && o.possible() && !o.before(c) && x.maySet(o, a) {
			return true
		}
	}
	return false
}
