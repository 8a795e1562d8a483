package check

import (
	"cmp"
	"slices"
	"time"

	"github.com/belfryhq/belfry/chaos/history"
)

// Leases checks invariant 12: a task has one live lease at most, and a settle is answered truly.
//
//   - A lease is live from its grant until its end, or until a call that may have ended it. It lasts as long as its
//     consumer asked.
//   - The service refuses a settle under an ended lease, and takes one under a live lease.
//   - The service takes an ack again if it took it before.
//   - A settle answered with "replaced" settles nothing, and some call must have scheduled the task anew.
func Leases(x *Index, limits Limits) Finding {
	l := &leases{x: x, limits: limits, windows: x.windows(limits)}
	l.Invariant, l.Promise = "12", "a task has one live lease at most"
	for _, t := range x.order {
		l.judge(t)
	}
	l.Observe(l.regranted, "leases that ended by themselves and were followed by another")
	l.Observe(l.expired, "settles refused after the end of their lease")
	l.figures("%d leases: %d acknowledged, %d refused with a nack, %d given back, %d ended by themselves; "+
		"%d came again; %d settles after the end were refused, %d acks repeated, "+
		"%d settles of tasks scheduled anew; %d of the length that was asked for",
		l.granted, l.settled[history.Ack], l.settled[history.Nack], l.settled[history.Release], l.settled[noSettle],
		l.repeats, l.refusals, l.repeatedAcks, l.replaced, l.measured)
	return l.Finding
}

// leases is the check under way.
type leases struct {
	Finding
	leaseCounts
	settleCounts

	x       *Index
	limits  Limits
	windows map[uint32][]window
}

// leaseCounts are numbers of leases.
type leaseCounts struct {
	granted   int
	settled   map[history.Kind]int // by the settle that ended them
	repeats   int                  // of an occurrence that was leased before
	regranted int                  // repeats that no settle preceded
	measured  int                  // those whose length was judged
}

// settleCounts are numbers of settles.
type settleCounts struct {
	refusals     int
	expired      int // refused after the end of their lease
	repeatedAcks int
	replaced     int // of tasks scheduled anew
}

// noSettle stands for the end of a lease by itself.
const noSettle history.Kind = ""

func (l *leases) judge(t *task) {
	var leased []*arrival
	for _, a := range t.arrivals {
		if a.Pulled {
			leased = append(leased, a)
		}
	}
	slices.SortFunc(leased, func(a, b *arrival) int { return cmp.Compare(a.Fence, b.Fence) })
	for i, lease := range leased {
		l.count(lease)
		l.judgeSettles(t, lease)
		l.judgeLength(t, lease)
		for _, later := range leased[i+1:] {
			l.judgePair(t, lease, later)
		}
		if i > 0 && leased[i-1].WebhookID == lease.WebhookID {
			l.repeats++
			if !slices.ContainsFunc(leased[i-1].settles, mayEnd) {
				l.regranted++
			}
		}
	}
}

// mayEnd reports whether a call may have ended its lease.
func mayEnd(c *history.Call) bool { return c.Kind != history.Extend && possible(c) }

// maxOverrun is the longest time by which a lease may exceed its requested length: by the contract the wheel runs up to
// 50 ms ahead of the clock.
const maxOverrun = 50 * time.Millisecond

// judgeLength checks that a lease lasts as long as its consumer asked, counted from its grant. The grant lies before
// the arrival. It was made for this consumer, or up to handedOn earlier for another consumer that asked for the same
// length. Leases near a failover are not judged: a deposed leader may hand a lease to a consumer that asked for another
// length.
func (l *leases) judgeLength(t *task, a *arrival) {
	if a.LeaseFor == 0 || l.failsOver(t, a.Asked.Add(-handedOn), a.At) {
		return
	}
	l.measured++
	behind, ahead := l.x.clocks.Off(a.Asked, a.At)
	if most := a.At.Add(a.LeaseFor+maxOverrun+ahead) + rounding; a.LeaseEnds > most {
		l.breach(a.At, t.id, "leased under fence %d for %v, and it lasts %v longer", a.Fence, a.LeaseFor,
			a.LeaseEnds.Sub(most))
	}
	least := a.Asked.Add(a.LeaseFor - handedOn - behind)
	if a.LeaseEnds < least && l.calm(t, a.Asked.Add(-handedOn), a.At) {
		l.breach(a.At, t.id, "leased under fence %d for %v, and it ends %v too soon", a.Fence, a.LeaseFor,
			least.Sub(a.LeaseEnds))
	}
}

// count counts a lease by the settle that ended it.
func (l *leases) count(a *arrival) {
	if l.settled == nil {
		l.settled = map[history.Kind]int{}
	}
	l.granted++
	end := noSettle
	for _, kind := range []history.Kind{history.Release, history.Nack, history.Ack} {
		if slices.ContainsFunc(a.settles, func(c *history.Call) bool {
			return c.Kind == kind && c.Outcome == history.OK
		}) {
			end = kind
		}
	}
	l.settled[end]++
}

// judgePair compares a lease a with a later lease b of the same task.
func (l *leases) judgePair(t *task, a, b *arrival) {
	for _, c := range a.settles {
		if c.Outcome == history.OK && c.Start > b.At {
			l.breach(c.Start, t.id, "%s under fence %d was taken after the lease under %d was out", c.Kind, a.Fence, b.Fence)
		}
	}
	if a.WebhookID != b.WebhookID || a.Fence == b.Fence {
		return // a new occurrence ends earlier leases, and Fences finds repeated fences
	}
	if acked, _ := a.taken(); acked {
		l.breach(b.At, t.id, "leased under fence %d, and an ack under %d was taken", b.Fence, a.Fence)
		return
	}
	if held := l.x.heldUntil(a); b.At < held {
		l.breach(b.At, t.id, "leased under fence %d, %v before the lease under %d ended", b.Fence, held.Sub(b.At), a.Fence)
	}
	l.notTooSoon(t, a, b)
}

// heldUntil returns the instant until which a lease certainly lasted: the first instant at which a clock may have shown
// its announced end. An answered extension counts from its start. The lease is uncertain from the start of a call that
// may end it.
func (x *Index) heldUntil(a *arrival) history.Instant {
	held := a.LeaseEnds // a reading of the leader's clock
	for _, c := range a.settles {
		extended := x.leastAfter(c)
		switch {
		case c.Start > held:
			return x.clocks.Earliest(held)
		case !possible(c):
		case c.Kind != history.Extend:
			return min(c.Start, x.clocks.Earliest(held))
		case c.Outcome == history.OK:
			held = extended
		default: // the extension may have made the lease shorter
			held = min(held, extended)
		}
	}
	return x.clocks.Earliest(held)
}

// leastAfter returns the earliest clock reading at which the delay of a call may be over.
func (x *Index) leastAfter(c *history.Call) history.Instant {
	behind, _ := x.clocks.Off(c.Start, doneBy(c))
	return c.Start.Add(c.Ask.Delay - behind)
}

// doneBy returns the instant at which a call was answered, Forever if it never was.
func doneBy(c *history.Call) history.Instant {
	if c.End == 0 {
		return history.Forever
	}
	return c.End
}

// overBy returns the latest clock reading at which a lease ended, as its extensions before call had set it. The service
// may notice the end later.
func (x *Index) overBy(a *arrival, call *history.Call) history.Instant {
	over := a.LeaseEnds
	for _, c := range a.settles {
		switch {
		case c == call:
			return over
		case c.Kind != history.Extend || !possible(c):
		case c.Outcome == history.OK:
			_, ahead := x.clocks.Off(c.Start, c.End)
			over = max(over, c.End.Add(c.Ask.Delay+ahead))
		default: // the lease was live when the extension happened
			over = over.Add(c.Ask.Delay)
		}
	}
	return over
}

// notTooSoon checks that the service keeps the retry delay of a nack, unless a call fired the task in between.
func (l *leases) notTooSoon(t *task, a, b *arrival) {
	fired := slices.ContainsFunc(t.ops, func(o *op) bool {
		return o.kind == history.Fire && o.possible() && o.start < b.At && (o.doubtful() || o.end > a.At)
	})
	for _, c := range a.settles {
		if c.Kind != history.Nack || c.Outcome != history.OK || c.Ask.Delay == 0 || fired {
			continue
		}
		if due := l.x.clocks.Earliest(l.x.leastAfter(c)); b.At < due-rounding {
			l.breach(b.At, t.id, "leased again %v before the delay of its nack was over", due.Sub(b.At))
		}
	}
}

// judgeSettles compares the calls about one lease with each other and with the lease's end.
func (l *leases) judgeSettles(t *task, a *arrival) {
	for _, c := range a.settles {
		switch {
		case c.Outcome == history.OK:
			l.judgeTaken(t, a, c)
		case c.Answer.Replaced:
			l.judgeReplaced(t, a, c)
		case c.Answer.Status == conflict || c.Answer.Status == notFound:
			l.judgeRefused(t, a, c)
		}
	}
}

// judgeReplaced checks a settle answered with "replaced": a call must be able to have made another occurrence.
func (l *leases) judgeReplaced(t *task, a *arrival, c *history.Call) {
	l.replaced++
	if c.Kind == history.Extend {
		l.breach(c.Start, t.id, "an extend under fence %d was told that the task was scheduled anew, and not refused",
			a.Fence)
	}
	if !t.mayHaveReplaced(a, c.End) {
		l.breach(c.Start, t.id, "%s under fence %d was told that the task was scheduled anew, and no call did that",
			c.Kind, a.Fence)
	}
}

// judgeTaken checks a settle that the service took: the lease was live, or the settle repeats an ack.
func (l *leases) judgeTaken(t *task, a *arrival, c *history.Call) {
	for _, p := range a.settles {
		if p == c || p.Kind == history.Extend || !possible(p) || p.Start > c.Start {
			continue
		}
		if c.Kind == history.Ack && p.Kind == history.Ack {
			l.repeatedAcks++
			return // a repeated ack gets the same answer at any time
		}
		if p.Outcome == history.OK && p.End < c.Start {
			l.breach(c.Start, t.id, "%s under fence %d was taken, %v after a %s under it", c.Kind, a.Fence,
				c.Start.Sub(p.End), p.Kind)
			return
		}
	}
	over := l.x.overBy(a, c)
	behind, _ := l.x.clocks.Off(a.At, c.Start)
	if late := c.Start.Sub(over); late > l.limits.Settle+behind && l.calm(t, over, c.Start) {
		l.breach(c.Start, t.id, "%s under fence %d was taken %v after its lease had ended", c.Kind, a.Fence, late)
	}
}

// calm reports whether no fault and no failover kept the shard from noticing between two instants that a lease had
// ended.
func (l *leases) calm(t *task, from, to history.Instant) bool {
	if l.x.calmFrom(from, l.limits.Tail, to.Sub(from)) != from {
		return false
	}
	return !l.failsOver(t, from, to)
}

// failsOver reports whether a shard of the task may have changed its leader between two instants.
func (l *leases) failsOver(t *task, from, to history.Instant) bool {
	return slices.ContainsFunc(t.known(), func(shard uint32) bool {
		return slices.ContainsFunc(l.windows[shard], func(w window) bool { return w.from <= to && from <= w.to })
	})
}

// judgeRefused checks a settle that the service refused: the lease must have been over, and an ack taken before must
// not be refused now.
func (l *leases) judgeRefused(t *task, a *arrival, c *history.Call) {
	l.refusals++
	if t.mayHaveReplaced(a, c.End) {
		return
	}
	ended := false
	for _, p := range a.settles {
		if p == c || !possible(p) || p.Start > c.End {
			continue
		}
		ended = ended || p.Kind != history.Extend
		if c.Kind == history.Ack && p.Kind == history.Ack && p.Outcome == history.OK && p.End < c.Start {
			l.breach(c.Start, t.id, "an ack under fence %d was taken, and refused when it was repeated", a.Fence)
		}
	}
	held := l.x.heldUntil(a)
	if !ended && c.Start > held {
		l.expired++
	}
	if !ended && c.End < held {
		l.breach(c.Start, t.id, "%s under fence %d was refused %v before its lease ended", c.Kind, a.Fence, held.Sub(c.End))
	}
}

// mayHaveReplaced reports whether a call may have made another occurrence after the grant of a lease. The grant may lie
// up to handedOn before the call that returned the lease.
func (t *task) mayHaveReplaced(a *arrival, until history.Instant) bool {
	granted := a.Asked.Add(-handedOn)
	return slices.ContainsFunc(t.ops, func(o *op) bool {
		return o.schedules() && o.possible() && o.start <= until &&
			(o.doubtful() || o.end >= granted && o.n != a.Wrote)
	})
}
