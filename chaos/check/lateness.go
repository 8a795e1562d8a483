package check

import (
	"time"

	"github.com/belfryhq/belfry/chaos/history"
)

// Lateness reports, for invariant 6, how late first attempts came: outside all faults, and for each kind of fault from
// its beginning until a while after its mending. It refuses nothing; budgets depend on the machine.
func Lateness(x *Index) Finding {
	f := Finding{Invariant: "6", Promise: "lateness (figures only)"}
	late := Spreads{}
	for _, t := range x.order {
		seen := map[string]bool{}
		for _, a := range t.arrivals {
			if a.Attempt > 1 || seen[a.WebhookID] {
				continue
			}
			seen[a.WebhookID] = true
			if since, ok := x.owedSince(a); ok {
				late.add(x.faultAt(a.At), a.At.Sub(since))
			}
		}
	}
	f.figures("%v", late)
	return f
}

// settleDown is how long after the mending of a fault lateness still counts as the fault's.
const settleDown = 2 * time.Second

func (x *Index) faultAt(at history.Instant) string {
	for i := range x.h.Faults {
		f := &x.h.Faults[i]
		if at >= f.Struck && at <= healed(f).Add(settleDown) {
			return f.Kind
		}
	}
	return "no fault"
}

// owedSince is the instant from which lateness counts: when it was due, or, if that is later, when the call that wrote
// the payload was answered. What arrives before that answer is not late yet, and ok is false.
func (x *Index) owedSince(a *history.Arrival) (_ history.Instant, ok bool) {
	w := x.writes[a.Wrote]
	if w == nil || w.end >= a.At {
		return 0, false
	}
	return max(a.Due, w.end), true
}
