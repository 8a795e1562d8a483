package check

import (
	"cmp"
	"slices"
	"time"

	"github.com/belfryhq/belfry/chaos/history"
)

// Recovery checks invariant 13: after each mending every shard takes a write within limits.Recover, without an
// operator's help, and at the end no due task still waits. If other faults were under way, the mending of the last one
// counts. If the next fault struck before the write was owed, the mending is not judged. A shard is judged from the
// first sight of its slots on.
func Recovery(x *Index, limits Limits) Finding {
	f := Finding{Invariant: "13", Promise: "every shard takes writes soon after a mending"}
	writes, born := x.writesByShard(), x.born()
	var slowest, failover time.Duration
	judged := map[history.Instant]bool{}
	wrote := 0 // first writes of shards after a mending
	for i := range x.h.Faults {
		fault := &x.h.Faults[i]
		for _, shard := range fault.Shards {
			took, _ := firstAfter(writes[shard], fault.Struck)
			failover = max(failover, took)
		}
		if fault.Mended == 0 {
			f.breach(fault.Struck, "", "the %s of %v was never mended", fault.Kind, fault.Nodes)
			continue
		}
		calm := x.calmFrom(fault.Mended, 0, 0)
		if judged[calm] || calm == history.Forever {
			continue
		}
		judged[calm] = true
		next := x.nextFault(calm)
		for shard, ws := range writes {
			took, ok := firstAfter(ws, calm)
			switch {
			case born[shard] > calm:
				continue
			case calm.Add(took) < next && ok:
				slowest = max(slowest, took)
				wrote++
			case calm.Add(limits.Recover) >= next:
				continue
			}
			if !ok || took > limits.Recover {
				f.breach(calm, "", "shard %d took no write within %v of the mending of the %s (it took %v; 0: none ever)",
					shard, limits.Recover, fault.Kind, took)
			}
		}
	}
	x.stillDue(&f)
	f.Observe(wrote, "first writes of a shard after all faults were mended")
	f.figures("%d faults, %d times all was mended; first write at most %v after a fault struck the leader, "+
		"%v after all was mended", len(x.h.Faults), len(judged), failover, slowest)
	return f
}

// nextFault returns the instant at which the first fault after at struck, Forever if none did.
func (x *Index) nextFault(at history.Instant) history.Instant {
	next := history.Forever
	for i := range x.h.Faults {
		if s := x.h.Faults[i].Struck; s > at {
			next = min(next, s)
		}
	}
	return next
}

// writesByShard returns the operations that changed a task, by shard and start. A shard without slots may be missing.
// Operations with several tries are left out, because the answer of a retry may report an earlier try. So are
// operations on tasks that changed their shard, if the answer names no shard.
func (x *Index) writesByShard() map[uint32][]*op {
	writes := map[uint32][]*op{}
	born := x.born()
	for _, t := range x.h.Terms {
		if _, ok := born[t.Shard]; ok || len(born) == 0 {
			writes[t.Shard] = nil
		}
	}
	for _, t := range x.order {
		for _, o := range t.ops {
			if shard := t.shardOf(o); o.outcome == history.OK && o.tries == 1 && shard != 0 {
				writes[shard] = append(writes[shard], o)
			}
		}
	}
	for _, ws := range writes {
		slices.SortFunc(ws, func(a, b *op) int { return cmp.Compare(a.start, b.start) })
	}
	return writes
}

// shardOf returns the shard that carried an operation out, 0 if it is not known.
func (t *task) shardOf(o *op) uint32 {
	if o.answer.Shard == 0 && len(t.shards) == 1 {
		return t.shards[0]
	}
	return o.answer.Shard
}

// firstAfter returns the time from an instant to the first answer of a write that began at or after it, and false if
// there is no such write.
func firstAfter(writes []*op, at history.Instant) (time.Duration, bool) {
	i, _ := slices.BinarySearchFunc(writes, at, func(o *op, at history.Instant) int { return cmp.Compare(o.start, at) })
	first := history.Forever
	for ; i < len(writes) && writes[i].start < first; i++ {
		first = min(first, writes[i].end)
	}
	if first == history.Forever {
		return 0, false
	}
	return first.Sub(at), true
}

// stillDue finds tasks that their last reads at the end of the run show as overdue and not finished.
func (x *Index) stillDue(f *Finding) {
	for _, t := range x.order {
		r := t.last()
		if r != nil && r.Final && r.Outcome == history.OK && !finished(r.Answer.State) && r.Answer.FireAt < r.Start {
			f.breach(r.Start, t.id, "at the end it is %s, and was due %v before", r.Answer.State, r.Start.Sub(r.Answer.FireAt))
		}
	}
}

// FirstFire checks that after a start of all nodes the first overdue task arrives within limits.FirstFire.
func FirstFire(x *Index, limits Limits) Finding {
	f := Finding{Invariant: "13b", Promise: "overdue tasks fire soon after a start of all nodes"}
	var slowest time.Duration
	starts := 0
	for i := range x.h.Faults {
		fault := &x.h.Faults[i]
		if fault.Kind != history.KillAll || !x.aloneUntil(fault, fault.Mending.Add(limits.FirstFire)) || !x.overdue(fault) {
			continue // no task to fire, or another fault may delay the tasks
		}
		starts++
		took, ok := x.firstArrival(fault.Mending)
		if !ok || took > limits.FirstFire {
			f.breach(fault.Mending, "", "the first arrival came %v after the start (0: never)", took)
		}
		slowest = max(slowest, took)
	}
	f.Observe(starts, "starts of all nodes with overdue tasks and nothing else broken")
	f.figures("%d starts with overdue tasks; first arrival at most %v after the processes were started",
		starts, slowest)
	return f
}

// overdue reports whether an acknowledged task became due while all nodes were down. It ignores tasks with more than
// one operation, which may have been ended or moved.
func (x *Index) overdue(f *history.Fault) bool {
	for _, t := range x.order {
		if len(t.ops) != 1 || !t.ops[0].made() || t.ops[0].end > f.Struck {
			continue
		}
		due := t.ops[0].ask.FireAt
		if due > f.Struck && due < f.Mending {
			return true
		}
	}
	return false
}

func (x *Index) firstArrival(after history.Instant) (time.Duration, bool) {
	first := history.Forever
	for i := range x.h.Arrivals {
		if at := x.h.Arrivals[i].At; at >= after {
			first = min(first, at)
		}
	}
	if first == history.Forever {
		return 0, false
	}
	return first.Sub(after), true
}

func round(d time.Duration) time.Duration { return d.Round(time.Millisecond / 10) }
