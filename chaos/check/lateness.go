package check

import (
	"time"

	"github.com/belfryhq/belfry/chaos/history"
)

// Lateness reports, for invariant 6, how late first attempts came: outside all faults, and for each kind of fault what
// was owed from its beginning until a while after its mending, be it beside others. It refuses nothing; budgets depend
// on the machine.
func Lateness(x *Index) Finding {
	f := Finding{Invariant: "6", Promise: "lateness (figures only)"}
	late := Spreads{}
	for _, toll := range Tolls(x) {
		if toll.Late.Count > 0 {
			late[toll.Kind] = toll.Late
		}
	}
	f.figures("%v", late)
	return f
}

// settleDown is how long after the mending of a fault lateness still counts as the fault's.
const settleDown = 2 * time.Second

// owedSince is the instant from which lateness counts: when it was due, or, if that is later, when the call that wrote
// the payload was answered. What arrives before that answer is not late yet, and ok is false.
func (x *Index) owedSince(a *history.Arrival) (_ history.Instant, ok bool) {
	w := x.writes[a.Wrote]
	if w == nil || w.end >= a.At {
		return 0, false
	}
	return max(a.Due, w.end), true
}
