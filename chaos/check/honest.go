package check

import "github.com/belfryhq/belfry/chaos/history"

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
