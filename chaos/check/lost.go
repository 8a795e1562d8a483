package check

import (
	"slices"

	"github.com/belfryhq/belfry/chaos/history"
)

// Lost checks invariant 1: no acknowledged task is lost. Each acknowledged occurrence arrived and was accepted, by an
// answer or an ack, or is a dead letter, still waits, or was ended by a later call.
func Lost(x *Index) Finding {
	f := Finding{Invariant: "1", Promise: "nothing acknowledged is lost"}
	var count [fates]int
	outlived := 0
	for _, t := range x.order {
		for _, w := range t.ops {
			if !w.made() {
				continue
			}
			fate := x.fateOf(t, w)
			count[fate]++
			if fate <= waiting && x.outlived(t, w) {
				outlived++
			}
			switch fate {
			case lost:
				f.breach(w.end, t.id, "operation %d was acknowledged, and nothing came of it", w.n)
			case unread:
				f.breach(w.end, t.id, "operation %d was acknowledged, nothing came of it, and the task could not be read", w.n)
			}
		}
		readMisses(&f, t)
	}
	n := fatesOf(count)
	f.Observe(outlived, "tasks acknowledged before a fault and found after it")
	f.figures("%d acknowledged: %d delivered, %d dead letters, %d waiting, %d ended by a later call, "+
		"%d perhaps by one of unknown outcome, %d could not be read in the end, %d lost",
		n.Acknowledged, n.Delivered, n.Dead, n.Waiting, n.Ended, n.Doubtful, n.Unread, n.Lost)
	return f
}

// outlived reports whether a fault struck after w was acknowledged and before the task was last seen.
func (x *Index) outlived(t *task, w *op) bool {
	seen := history.Instant(0)
	for _, a := range t.arrivals {
		if x.wroteSince(a.Wrote, w) {
			seen = max(seen, a.At)
		}
	}
	if last := t.last(); last != nil {
		seen = max(seen, last.Start)
	}
	return slices.ContainsFunc(x.h.Faults, func(f history.Fault) bool { return w.end < f.Struck && f.Struck < seen })
}

// Fates counts the acknowledged occurrences by their fate.
type Fates struct {
	Acknowledged int `json:"acknowledged"`
	Delivered    int `json:"delivered"`
	Dead         int `json:"dead"`
	Waiting      int `json:"waiting"`
	Ended        int `json:"ended"`    // ended by a later call
	Doubtful     int `json:"doubtful"` // perhaps ended by a call of unknown outcome
	Unread       int `json:"unread"`   // not found again, and the task could not be read in the end
	Lost         int `json:"lost"`
}

// FatesOf returns the fates of all acknowledged occurrences of a history.
func FatesOf(x *Index) Fates {
	var count [fates]int
	for _, t := range x.order {
		for _, w := range t.ops {
			if w.made() {
				count[x.fateOf(t, w)]++
			}
		}
	}
	return fatesOf(count)
}

func fatesOf(count [fates]int) Fates {
	return Fates{
		Acknowledged: sum(count[:]), Delivered: count[delivered], Dead: count[dead], Waiting: count[waiting],
		Ended: count[ended], Doubtful: count[doubtful], Unread: count[unread], Lost: count[lost],
	}
}

// Plus returns the sum of both.
func (f Fates) Plus(g Fates) Fates {
	return Fates{
		f.Acknowledged + g.Acknowledged, f.Delivered + g.Delivered, f.Dead + g.Dead, f.Waiting + g.Waiting,
		f.Ended + g.Ended, f.Doubtful + g.Doubtful, f.Unread + g.Unread, f.Lost + g.Lost,
	}
}

type fate int

const (
	delivered fate = iota
	dead
	waiting
	ended
	doubtful
	unread
	lost
	fates
)

func (x *Index) fateOf(t *task, w *op) fate {
	perhaps := false
	for _, a := range t.arrivals {
		if !x.wroteSince(a.Wrote, w) {
			continue
		}
		taken, may := a.taken()
		if taken {
			return delivered
		}
		perhaps = perhaps || may
	}
	last := t.last()
	if last == nil || last.Outcome != history.OK {
		last = &history.Call{}
	}
	switch {
	case x.wroteSince(last.Answer.Wrote, w) && last.Answer.State == "dead":
		return dead
	case x.wroteSince(last.Answer.Wrote, w) && !finished(last.Answer.State):
		return waiting
	case perhaps && last.Answer.State == "delivered":
		return delivered
	case perhaps:
		return min(t.endedBy(w), doubtful)
	}
	found := t.endedBy(w)
	if found == lost && t.unanswered() {
		return unread
	}
	return found
}

// endedBy returns the fate of the occurrence that w made, judged by the calls that may have ended it: ended, doubtful
// or lost.
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

// readMisses finds reads that did not find a task after it was acknowledged. The service keeps tombstones for longer
// than a run.
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
