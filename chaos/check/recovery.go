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

// Majority checks that a majority of a shard's replicas is enough: every shard takes a write within limits.Recover of a
// fault that leaves one, and the fault is not mended for it. Faults that strike beside another one are not judged.
func Majority(x *Index, limits Limits) Finding {
	f := Finding{Invariant: "13f", Promise: "a majority of the replicas is enough"}
	writes, born := x.writesByShard(), x.born()
	var slowest time.Duration
	struck, wrote := 0, 0
	for i := range x.h.Faults {
		fault := &x.h.Faults[i]
		if !fault.Survivable || !x.nothingBeside(fault, fault.Struck, fault.Struck) {
			continue
		}
		struck++
		next := x.nextFault(fault.Struck)
		for shard, ws := range writes {
			if born[shard] > fault.Struck {
				continue
			}
			took, ok := firstAfter(ws, fault.Struck)
			switch {
			case ok && fault.Struck.Add(took) < next && took <= limits.Recover:
				wrote++
				slowest = max(slowest, took)
			case fault.Struck.Add(limits.Recover) < next:
				f.breach(fault.Struck, "", "shard %d took no write within %v of the %s of %v (it took %v; 0: none ever)", shard,
					limits.Recover, fault.Kind, fault.Nodes, took)
			}
		}
	}
	f.Observe(wrote, "first writes of a shard after a fault that left a majority of its replicas")
	f.figures("%d faults; first write at most %v after they struck", struck, slowest)
	return f
}

// Hints checks that gossip is only a hint. While gossip alone is lost or forged, and afterwards, no node refuses the
// calls of one kind about one shard for longer than a failover may take. A call with a 503 or without an answer counts
// as refused. The other checks look for lost, early and repeated tasks in that time.
func Hints(x *Index, limits Limits) Finding {
	f := Finding{Invariant: "13e", Promise: "bad gossip alone refuses no calls for long"}
	g := &gossiped{x: x, limits: limits, f: &f, spells: map[line]*spell{},
		during: map[*history.Fault]int{}}
	if limits.Failover > 0 {
		for i := range x.h.Calls {
			g.take(&x.h.Calls[i])
		}
	}
	count := map[string]int{}
	calls := 0
	for fault, n := range g.during {
		count[fault.Kind]++
		calls += n
	}
	f.Observe(count[history.SilentGossip], "times that gossip was silent, and nothing else broken")
	f.Observe(count[history.ForgedGossip], "times that gossip was forged, and nothing else broken")
	f.figures("%d calls meanwhile, %d afterwards; %d answered 503 or not at all, for %v at most", calls, g.after,
		g.refused, g.longest)
	return f
}

// line identifies a group of calls: the calls to one node about one shard, either with a delay or without. A delay
// counts from a clock, so a node may refuse calls with a delay and answer the others.
type line struct {
	node    string
	shard   uint32
	delayed bool
}

// spell is a time in which all calls of one line were refused.
type spell struct {
	from     history.Instant // start of the first refused call
	calls    int
	reported bool // the spell is already reported as a breach
}

// fewest is the number of refused calls in a row that prove a refusal: fewer calls may just have had too little time.
const fewest = 5

// gossiped is the state of one run of Hints.
type gossiped struct {
	x      *Index
	limits Limits
	f      *Finding

	spells map[line]*spell        // current spell of each refused line
	during map[*history.Fault]int // number of calls in each fault of gossip

	after, refused int
	longest        time.Duration
}

// take judges the next call. Calls come in the order of their starts.
func (g *gossiped) take(c *history.Call) {
	l := line{c.Node, g.x.tasks[c.ID].shard, c.Ask.Delay != 0 && !c.Kind.Settles()}
	broken, calm := g.gossipOnly(c)
	refused := c.Outcome != history.OK && (c.Answer.Status == 0 || c.Answer.Status >= unavailable)
	if !calm || !refused {
		delete(g.spells, l)
	}
	if !calm {
		return
	}
	if broken != nil {
		g.during[broken]++
	} else {
		g.after++
	}
	if !refused {
		return
	}
	g.refused++
	p := g.spells[l]
	if p == nil {
		p = &spell{from: c.Start}
		g.spells[l] = p
	}
	p.calls++
	took := c.Start.Sub(p.from)
	g.longest = max(g.longest, took)
	if took > g.limits.Failover && p.calls >= fewest && !p.reported {
		p.reported = true
		g.f.breach(c.Start, c.ID, "%s has taken no calls about shard %d (%s, with a delay: %v) for %v by now, more than %v, "+
			"and only gossip was broken", c.Node, l.shard, c.Kind, l.delayed, round(took), g.limits.Failover)
	}
}

// gossipOnly reports whether a fault of gossip struck before a call, with no other fault during the call or shortly
// before it. broken is the fault of gossip that was still under way, nil if none was.
func (g *gossiped) gossipOnly(c *history.Call) (broken *history.Fault, calm bool) {
	for i := range g.x.h.Faults {
		f := &g.x.h.Faults[i]
		switch {
		case f.Kind != history.SilentGossip && f.Kind != history.ForgedGossip:
			if f.Struck <= doneBy(c) && c.Start <= healed(f).Add(g.limits.Recover) {
				return nil, false
			}
		case f.Struck <= c.Start:
			calm = true
			if c.Start <= healed(f) {
				broken = f
			}
		}
	}
	return broken, calm
}
