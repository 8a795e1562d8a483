package check

import (
	"time"

	"github.com/belfryhq/belfry/chaos/history"
)

// Early checks invariant 2: nothing arrives before its due time, and each due time is one that was asked for.
func Early(x *Index) Finding {
	f := Finding{Invariant: "2", Promise: "nothing is early"}
	arrivals, certain := 0, 0
	for _, t := range x.order {
		for _, a := range t.arrivals {
			arrivals++
			if a.At < a.Due {
				f.breach(a.At, t.id, "arrived %v before it was due", a.Due.Sub(a.At))
			}
			asked, exact := t.askedFor(a)
			if exact {
				certain++
			}
			if !asked {
				f.breach(a.At, t.id, "arrived as due at %s, which no call had asked for",
					a.Due.Time().Format("15:04:05.000"))
			}
		}
	}
	f.figures("%d arrivals, %d of them held against the exact instant that was asked for", arrivals, certain)
	return f
}

// askedFor tells whether a call that may have set it asked for an arrival's due time; exact: there was only one such
// call, and it named the instant.
func (t *task) askedFor(a *history.Arrival) (asked, exact bool) {
	setters := 0
	for _, o := range t.ops {
		if o.kind == history.Cancel || !o.possible() || o.start > a.At {
			continue
		}
		setters++
		exact = o.ask.FireAt != 0
		asked = asked || o.mayMean(a.Due)
	}
	return asked, exact && setters == 1
}

// rounding: the service keeps whole milliseconds. What it rounds up from its own clock may be less than one above.
const rounding = history.Instant(time.Millisecond)

// mayMean tells whether an operation, wherever in its time it happened, may have set that due time.
func (o *op) mayMean(due history.Instant) bool {
	if o.ask.FireAt != 0 {
		return due == o.ask.FireAt
	}
	end := o.end
	if o.doubtful() || o.open {
		end = history.Forever
	}
	from := o.start.Add(o.ask.Delay)
	if o.kind == history.Fire {
		from -= rounding // an instant of "now" is rounded down
	}
	return due >= from && (end == history.Forever || due <= end.Add(o.ask.Delay)+rounding)
}
