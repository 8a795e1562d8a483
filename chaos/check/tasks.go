package check

import (
	"cmp"
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
	Acknowledged int
	Delivered    int
	Dead         int
	Waiting      int
	Ended        int // ended by a later call
	Doubtful     int // perhaps ended by a call of unknown outcome
	Unread       int // not found again, and the task could not be read in the end
	Lost         int
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

// Cancelled checks invariant 3:
//
//   - An occurrence whose cancel was answered `cancelled` never arrives, neither before nor after the answer.
//   - No attempt is granted after a cancel that was answered `stopped`. So all arrivals have a fence below the revision
//     in the answer, however late they come.
//   - Two cancels of one occurrence get one answer.
//
// A released lease does not count as begun, and may lie before the cancel.
func Cancelled(x *Index) Finding {
	f := Finding{Invariant: "3", Promise: "cancelled means never"}
	count := map[string]int{}
	judged, later := map[string]int{}, 0
	for _, t := range x.order {
		for _, c := range t.ops {
			if c.kind != history.Cancel || c.outcome != history.OK {
				continue
			}
			count[c.answer.Cancel]++
			stopped := c.answer.Cancel == "stopped"
			if stopped && c.answer.Revision == 0 {
				f.breach(c.end, t.id, "operation %d was answered stopped without the revision: what may still come?", c.n)
			}
			w := t.occurrenceOf(c)
			if w == nil {
				continue
			}
			judged[c.answer.Cancel]++
			for _, a := range t.arrivals {
				switch {
				case !x.carries(a.Wrote, w, c) || a.released(c.end) && a.At <= c.end:
				case c.answer.Cancel == "cancelled":
					f.breach(a.At, t.id, "operation %d was answered cancelled, and an attempt arrived", c.n)
				case stopped && c.answer.Revision > 0 && a.Fence >= c.answer.Revision:
					f.breach(a.At, t.id, "operation %d was answered stopped at revision %d, and an attempt was granted at %d",
						c.n, c.answer.Revision, a.Fence)
				case stopped && a.At > c.end:
					later++
				}
			}
			t.sameAnswer(&f, w, c)
		}
	}
	f.Observe(judged["cancelled"], "cancels of a known occurrence answered cancelled")
	f.Observe(judged["stopped"], "cancels of a known occurrence answered stopped")
	f.Observe(judged["already_fired"], "cancels of a known occurrence answered already_fired")
	f.figures("%d cancelled, %d stopped, %d already fired; %d attempts arrived after a stop, granted before",
		count["cancelled"], count["stopped"], count["already_fired"], later)
	return f
}

// occurrenceOf returns the operation that made the occurrence that c cancelled or changed: the last one before c. It
// returns nil if that operation is not certain, because another one may lie between the two.
func (t *task) occurrenceOf(c *op) *op {
	var w *op
	for _, o := range t.ops {
		if o.schedules() && o.made() && o.before(c) && (w == nil || w.before(o)) {
			w = o
		}
	}
	if w == nil || w.doubtful() {
		return nil
	}
	for _, o := range t.ops {
		if o != w && o.schedules() && o.possible() && !o.before(w) && !c.before(o) {
			return nil
		}
	}
	return w
}

// sameAnswer compares the answer of c with the answers to other cancels of the occurrence that w made.
func (t *task) sameAnswer(f *Finding, w, c *op) {
	for _, other := range t.ops {
		if other.kind == history.Cancel && other.outcome == history.OK && other.n < c.n &&
			t.occurrenceOf(other) == w && other.answer.Cancel != c.answer.Cancel {
			f.breach(c.end, t.id, "operations %d and %d cancelled one occurrence and were answered %s and %s",
				other.n, c.n, other.answer.Cancel, c.answer.Cancel)
		}
	}
}

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

// Honest checks invariant 14: a call that was refused, or answered as not committed, did not happen.
//
//   - No arrival or read shows the payload of an operation before the start of a call that may have succeeded.
//   - No read shows a task as cancelled before a cancel that may have succeeded.
//   - The client reports no call as not done that may have been done.
//
// Early checks that a refused call set no due time, and Lost that it ended no task.
func Honest(x *Index) Finding {
	f := Finding{Invariant: "14", Promise: "errors are honest"}
	refused, uncommitted := 0, 0
	for i := range x.h.Calls {
		c := &x.h.Calls[i]
		switch {
		case c.Answer.Misjudged:
			f.breach(c.End, c.ID, "operation %d had been sent, and the client called it not done", c.Op)
		case c.Outcome != history.Failed || !c.Kind.Changes():
		case c.Answer.Status >= 500:
			uncommitted++
		case c.Answer.Status >= 400:
			refused++
		}
	}
	for _, t := range x.order {
		for _, a := range t.arrivals {
			x.notYetWritten(&f, t, a.Wrote, a.At, "arrived")
		}
		for _, reads := range [][]*history.Call{t.reads, t.stale} {
			for _, r := range reads {
				if r.Outcome == history.OK {
					x.notYetWritten(&f, t, r.Answer.Wrote, r.End, "was read")
					t.notYetCancelled(&f, r)
				}
			}
		}
	}
	f.Observe(refused, "changing calls refused (4xx)")
	f.Observe(uncommitted, "changing calls answered as not committed (503)")
	f.figures("%d changing calls were refused (4xx), %d answered as not committed (503)", refused, uncommitted)
	return f
}

func (x *Index) notYetWritten(f *Finding, t *task, n int64, seen history.Instant, how string) {
	if w := x.writes[n]; w != nil && (!w.possible() || seen < w.start) {
		f.breach(seen, t.id, "operation %d (%s) had failed until then, and its payload %s", w.n, w.kind, how)
	}
}

func (t *task) notYetCancelled(f *Finding, r *history.Call) {
	if r.Answer.State != "cancelled" {
		return
	}
	for _, o := range t.ops {
		if o.kind == history.Cancel && o.possible() && o.start <= r.End {
			return
		}
	}
	f.breach(r.Start, t.id, "operation %d shows it cancelled, and no cancel may have succeeded", r.Op)
}
