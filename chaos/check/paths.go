package check

import (
	"time"

	"github.com/belfryhq/belfry/chaos/history"
)

// pathGrace is the time in which a failing path may hold up the others, until its failures tell it apart.
const pathGrace = 5 * time.Second

// Paths checks that a failing path of a receiver holds up no other path of it (invariant 6b). While one path fails and
// nothing else is broken, the first attempts at other paths come at most limits.Path late, if they are owed after
// pathGrace.
func Paths(x *Index, limits Limits) Finding {
	f := Finding{Invariant: "6b", Promise: "a failing path holds up no other path of its receiver"}
	late, failed := Spread{}, 0
	faults := x.pathsAlone(limits.Path)
	for _, t := range x.order {
		for i, a := range t.arrivals {
			if a.Pulled || a.Path == "" {
				continue
			}
			if fault := faultAt(faults, a.At); fault != nil && a.Path == fault.Path {
				failed++
				continue
			}
			since, ok := x.owedSince(a)
			fault := faultAt(faults, since.Add(-pathGrace))
			if !ok || fault == nil || since > fault.Mending || a.Attempt > 1 || seenBefore(t.arrivals[:i], a) {
				continue
			}
			took := a.At.Sub(since)
			late.Add(took)
			if limits.Path > 0 && took > limits.Path {
				f.breach(a.At, t.id, "an attempt at %s came %v late, more than %v, while %s failed", a.Path, round(took),
					limits.Path, fault.Path)
			}
		}
	}
	if limits.Path > 0 {
		f.Observe(len(faults), "times that one path failed and nothing else was broken")
		f.Observe(failed, "attempts at a path that failed alone")
		f.Observe(late.Count, "first attempts at other paths meanwhile")
	}
	f.figures("%d times alone, %d attempts at the failing path; first attempts at the others: %v", len(faults), failed,
		late)
	return f
}

// pathsAlone returns the faults of one path with nothing else broken. Nothing else may break before the time allowed
// for the last task that was owed meanwhile is over.
func (x *Index) pathsAlone(allowed time.Duration) []*history.Fault {
	var alone []*history.Fault
	for i := range x.h.Faults {
		if f := &x.h.Faults[i]; f.Kind == history.OnePath && x.nothingBeside(f, f.Struck, f.Mending.Add(allowed)) {
			alone = append(alone, f)
		}
	}
	return alone
}

// faultAt returns the fault that is under way at an instant, or nil.
func faultAt(faults []*history.Fault, at history.Instant) *history.Fault {
	for _, f := range faults {
		if f.Struck <= at && at <= f.Mending {
			return f
		}
	}
	return nil
}
