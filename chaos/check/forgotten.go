package check

import "github.com/belfryhq/belfry/chaos/history"

// forgotten finds arrivals with a due time from before an acknowledged change, and returns the number of changes that
// can be judged. The service acknowledges a change only before an attempt begins, so all attempts must have the new due
// time.
func (x *Index) forgotten(f *Finding, t *task) (changes int) {
	for _, c := range t.ops {
		w := t.changedBy(c)
		if w == nil {
			continue
		}
		changes++
		for _, a := range t.arrivals {
			if !x.carries(a.Wrote, w, c) || a.released(c.end) && a.At <= c.end || x.setSince(t, c, a) {
				continue
			}
			f.breach(a.At, t.id, "arrived as due at %s, which operation %d (%s) had changed",
				a.Due.Time().Format("15:04:05.000"), c.n, c.kind)
		}
	}
	return changes
}

// changedBy returns the operation whose occurrence c gave another due time. It returns nil if c certainly gave none, or
// if the operation is not certain.
func (t *task) changedBy(c *op) *op {
	moves := c.kind == history.Patch || c.kind == history.Touch
	if !moves || c.outcome != history.OK || c.recurs || c.schedules() || c.ask.Delay == 0 && c.ask.FireAt == 0 {
		return nil
	}
	return t.occurrenceOf(c)
}

// setSince reports whether c, or a call that is not certainly before c, may have set an arrival's due time.
func (x *Index) setSince(t *task, c *op, a *arrival) bool {
	for _, o := range t.ops {
		if o.kind != history.Cancel && o.possible() && !o.before(c) && x.maySet(o, a) {
			return true
		}
	}
	return false
}
