package check

import (
	"cmp"
	"slices"

	"github.com/belfryhq/belfry/chaos/history"
)

// Undead checks invariant 9: finished tasks stay finished. A finished task does not become an unfinished one by itself,
// and a task delivered well before a fault is not delivered again after the fault.
func Undead(x *Index, limits Limits) Finding {
	f := Finding{Invariant: "9", Promise: "nothing rises from the dead"}
	failovers := x.failovers(limits)
	ends, restarted := 0, 0
	for _, t := range x.order {
		n, again := t.roseInReads(&f, x.h.Faults)
		ends += n
		if again {
			restarted++
		}
		for i, a := range t.arrivals {
			if p := repeated(t.arrivals[:i], a); p != nil && p.Delivered() {
				failovers.roseAfterFault(&f, t, p, a)
			}
		}
	}
	f.Observe(restarted, "finished tasks read again after nodes were started anew")
	f.figures("%d sights of finished tasks, %d faults", ends, len(x.h.Faults))
	return f
}

// roseAfterFault finds a repeat a after a fault that struck once the outcome of the repeated attempt p was committed.
func (o failovers) roseAfterFault(f *Finding, t *task, p, a *arrival) {
	if len(o.explain(t, p, a)) > 0 {
		return
	}
	settled := o.settledAt(t, p)
	for i := len(o.x.h.Faults) - 1; i >= 0; i-- {
		fault := &o.x.h.Faults[i]
		if fault.Struck > a.At {
			continue
		}
		if settled < fault.Struck {
			f.breach(a.At, t.id, "%s was delivered %v before the %s, and came again %v after it",
				a.WebhookID, fault.Struck.Sub(answeredAt(p)), fault.Kind, a.At.Sub(fault.Struck))
		}
		return
	}
}

// roseInReads finds reads of an unfinished task after the task was finished. It returns the number of ends and finished
// sights of the task, and whether a fault that ended nodes' processes lies between the first of them and the last
// sight.
func (t *task) roseInReads(f *Finding, faults []history.Fault) (finishes int, restarted bool) {
	ends, sights := t.certainEnds(), t.sights()
	for _, s := range sights {
		if finished(s.state) {
			ends = append(ends, s)
		}
	}
	for _, s := range sights {
		if finished(s.state) || s.state == "" {
			continue
		}
		for _, e := range ends {
			if e.end < s.start && !t.revived(e, s) {
				f.breach(s.start, t.id, "operation %d shows it %s, after operation %d had shown it %s",
					s.n, s.state, e.n, e.state)
				break
			}
		}
	}
	if len(ends) == 0 || len(sights) == 0 {
		return len(ends), false
	}
	first, last := slices.MinFunc(ends, byEnd), sights[len(sights)-1]
	return len(ends), slices.ContainsFunc(faults, func(f history.Fault) bool {
		return f.Restarted && first.end < f.Struck && healed(&f) < last.start
	})
}

func byEnd(a, b sight) int { return cmp.Compare(a.end, b.end) }

// certainEnds returns the ends of the task that answers of cancels and acks prove. A cancel answered `stopped` is not
// among them: the task then ends with its running attempt.
func (t *task) certainEnds() []sight {
	var ends []sight
	for _, c := range t.settles {
		if c.Kind == history.Ack && c.Outcome == history.OK {
			ends = append(ends, sight{n: c.Op, start: c.Start, end: c.End, state: "delivered"})
		}
	}
	for _, o := range t.ops {
		if o.kind == history.Cancel && o.outcome == history.OK && o.answer.Cancel != "stopped" {
			ends = append(ends, sight{n: o.n, start: o.start, end: o.end, state: o.answer.Cancel})
		}
	}
	return ends
}

// revived reports whether an operation may have made a new occurrence between the sights e and s.
func (t *task) revived(e, s sight) bool {
	for _, o := range t.ops {
		if o.schedules() && o.possible() && o.start <= s.end && (o.doubtful() || o.end >= e.start) {
			return true
		}
	}
	return false
}

// sight is the state of a task that an answer showed, at an instant between start and end.
type sight struct {
	n          int64
	start, end history.Instant
	state      string
}

// sights returns all certain sights of a task, by start. Package linear checks that no sight shows an older state than
// an earlier one (invariant 8).
func (t *task) sights() []sight {
	var all []sight
	for _, r := range t.reads {
		if r.Outcome == history.OK {
			all = append(all, sight{r.Op, r.Start, r.End, r.Answer.State})
		}
	}
	for _, o := range t.ops {
		if o.outcome == history.OK && o.answer.Revision > 0 {
			all = append(all, sight{o.n, o.start, o.end, o.answer.State})
		}
	}
	slices.SortFunc(all, func(a, b sight) int { return cmp.Compare(a.start, b.start) })
	return all
}
