package check

import (
	"slices"
	"time"

	"github.com/belfryhq/belfry/chaos/history"
)

// Lateness reports how late first attempts and first leases came (invariant 6). It reports lateness outside all faults,
// and for each kind of fault the lateness of arrivals owed from the fault's start until shortly after its mending.
// Lateness has one breach: more than one in a hundred tasks that became due during a leader's death alone came later
// than limits.Failover. Other lateness budgets depend on the machine.
func Lateness(x *Index, limits Limits) Finding {
	f := Finding{Invariant: "6", Promise: "a failover keeps its lateness budget"}
	pushed, pulled := Spreads{}, Spreads{}
	tolls := Tolls(x)
	for _, toll := range tolls {
		if toll.Late.Count > 0 {
			pushed[toll.Kind] = toll.Late
		}
		if toll.Pulled.Count > 0 {
			pulled[toll.Kind] = toll.Pulled
		}
	}
	calls := Spreads{}
	for _, toll := range tolls {
		if (toll.Kind == PlannedAlone || toll.Kind == Calm) && toll.Calls.Count > 0 {
			calls[toll.Kind] = toll.Calls
		}
	}
	deaths, judged := Spreads{}, 0
	for fault, late := range x.lateInDeaths(limits.Failover) {
		if late.Count == 0 {
			continue
		}
		judged++
		deaths[history.KillLeader] = deaths[history.KillLeader].Plus(*late)
		if p99 := late.Quantile(99); limits.Failover > 0 && p99 > limits.Failover {
			f.breach(fault.Struck, "", "of %d tasks due within the %s the latest in a hundred came %v late, more than %v",
				late.Count, fault.Kind, round(p99), limits.Failover)
		}
	}
	if limits.Failover > 0 {
		f.Observe(judged, "leaders killed with nothing else broken and tasks due meanwhile")
		f.Observe(deaths[history.KillLeader].Count, "tasks due meanwhile")
	}
	f.figures("pushed: %v | pulled: %v | due within a leader's death alone: %v | "+
		"schedule calls: %v", pushed, pulled, deaths, calls)
	return f
}

// lateInDeaths returns, for each killed leader with nothing else broken, the lateness of the tasks that became due on
// its shards while it was dead. Nothing else may break before the time allowed for the last of these tasks is over.
func (x *Index) lateInDeaths(allowed time.Duration) map[*history.Fault]*Spread {
	late := map[*history.Fault]*Spread{}
	for i := range x.h.Faults {
		f := &x.h.Faults[i]
		if f.Kind == history.KillLeader && x.nothingBeside(f, f.Struck, f.Mending.Add(allowed)) {
			late[f] = new(Spread)
		}
	}
	if len(late) == 0 {
		return late
	}
	for _, t := range x.order {
		for i, a := range t.arrivals {
			if a.Pulled || a.Attempt > 1 || seenBefore(t.arrivals[:i], a) {
				continue
			}
			since, ok := x.owedSince(a)
			for f, spread := range late {
				if ok && f.Struck <= since && since < f.Mending && t.heldBy(f.Shards) {
					spread.Add(a.At.Sub(since))
				}
			}
		}
	}
	return late
}

// nothingBeside reports whether no fault but f was under way between two instants, or shortly before.
func (x *Index) nothingBeside(f *history.Fault, from, to history.Instant) bool {
	return !slices.ContainsFunc(x.h.Faults, func(other history.Fault) bool {
		return other.Struck != f.Struck && other.Struck <= to && from <= healed(&other).Add(settleDown)
	})
}

// seenBefore reports whether an attempt of the same occurrence came before.
func seenBefore(before []*arrival, a *arrival) bool {
	return slices.ContainsFunc(before, func(p *arrival) bool { return p.WebhookID == a.WebhookID })
}

// settleDown is the time after the mending of a fault in which lateness still counts as the fault's.
const settleDown = 2 * time.Second

// owedSince returns the instant from which the lateness of an arrival counts: its due time, or the answer to the call
// that wrote its payload, whichever is later. ok is false for an arrival before that answer, which cannot be late.
func (x *Index) owedSince(a *arrival) (_ history.Instant, ok bool) {
	w := x.writes[a.Wrote]
	if w == nil || w.end >= a.At {
		return 0, false
	}
	return max(a.Due, w.end), true
}
