package check

import "github.com/belfryhq/belfry/chaos/history"

// Lost checks invariant 1: nothing acknowledged is lost. Each occurrence that was acknowledged has arrived and was
// taken, is a dead letter, is still waiting, or was ended by a later call.
func Lost(x *Index) Finding {
	f := Finding{Invariant: "1", Promise: "nothing acknowledged is lost"}
	var count [fates]int
	for _, t := range x.order {
		for _, w := range t.ops {
			if !w.made() {
				continue
			}
			fate := x.fateOf(t, w)
			count[fate]++
			if fate == lost {
				f.breach(w.end, t.id, "operation %d was acknowledged, and nothing came of it", w.n)
			}
		}
		readMisses(&f, t)
	}
	f.figures("%d acknowledged: %d delivered, %d dead letters, %d waiting, %d ended by a later call, "+
		"%d perhaps by one of unknown outcome, %d lost", sum(count[:]), count[delivered], count[dead], count[waiting],
		count[ended], count[doubtful], count[lost])
	return f
}

type fate int

const (
	delivered fate = iota
	dead
	waiting
	ended
	doubtful
	lost
	fates
)

func (x *Index) fateOf(t *task, w *op) fate {
	for _, a := range t.arrivals {
		if a.Delivered() && x.wroteSince(a.Wrote, w) {
			return delivered
		}
	}
	if last := t.last(); last != nil && last.Outcome == history.OK && x.wroteSince(last.Answer.Wrote, w) {
		switch {
		case last.Answer.State == "dead":
			return dead
		case !finished(last.Answer.State):
			return waiting
		}
	}
	return t.endedBy(w)
}

// endedBy looks for a call that ended the occurrence that w made.
func (t *task) endedBy(w *op) fate {
	found := lost
	for _, o := range t.ops {
		switch {
		case o == w || !o.ends() || !o.possible() || o.before(w):
		case o.doubtful(), o.schedules() && !o.made():
			found = min(found, doubtful)
		case o.made(), o.answer.Cancel == "cancelled", o.answer.Cancel == "stopped":
			return ended
		}
	}
	if w.doubtful() {
		return min(found, doubtful)
	}
	return found
}

// readMisses finds reads that did not find a task after it was acknowledged. Tombstones are kept for longer than a run.
func readMisses(f *Finding, t *task) {
	for _, r := range t.reads {
		if r.Answer.Status != notFound || r.Outcome == history.OK {
			continue
		}
		for _, o := range t.ops {
			if o.outcome == history.OK && o.end < r.Start {
				f.breach(r.Start, t.id, "a read found no task, after operation %d (%s) had been acknowledged", o.n, o.kind)
				break
			}
		}
	}
}

func sum(counts []int) int {
	n := 0
	for _, c := range counts {
		n += c
	}
	return n
}
