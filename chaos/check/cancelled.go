package check

import "github.com/belfryhq/belfry/chaos/history"

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
