package check

import (
	"time"

	"github.com/belfryhq/belfry/chaos/history"
)

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
	from  history.Instant // start of the first refused call
	calls int
	told  bool // the spell is already reported as a breach
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
	if took > g.limits.Failover && p.calls >= fewest && !p.told {
		p.told = true
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
