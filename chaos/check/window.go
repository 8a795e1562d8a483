package check

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/belfryhq/belfry/chaos/history"
)

// window is the time in which changes of a shard's leader may make attempts come again.
type window struct {
	from, to history.Instant
	late     history.Instant // until when attempts of the leader before may arrive
	changes  int             // of leader, at most: so often may one attempt be repeated
	provoked bool            // by a fault; else the cluster changed its leader by itself
	stays    bool            // no leader changed, but answers of receivers were lost, or leases ended; and then
	begun    history.Instant // by when the attempts were begun that come again
}

const (
	// patience is how long an attempt may wait for an answer that was lost, with all its margins.
	patience = 20 * time.Second
	// transit is how long an answer may be on its way.
	transit = 100 * time.Millisecond
	// leaseMargin is for how long at least a lease goes on after its attempt's last instant.
	leaseMargin = 5 * time.Second
)

// windows finds those of every shard, one for each term that was seen to begin. Terms only rise, so that none can come
// and go unseen; but where the terms were not seen to the end, a fault makes one for each shard that it took the leader
// of. One that lost receivers' answers makes one for each that its nodes led: their attempts are made again. So does a
// clock that leapt ahead, over the ends of leases. Under 0 are those of all shards, for tasks of which the shard is not
// known.
func (x *Index) windows(limits Limits) map[uint32][]window {
	all := map[uint32][]window{}
	before, seen := map[uint32]history.Term{}, map[uint32]history.Instant{}
	for _, t := range x.h.Terms {
		last, known := before[t.Shard]
		before[t.Shard], seen[t.Shard] = t, t.At
		if known && t.Term == last.Term {
			seen[t.Shard] = t.Before // the last time
			continue
		}
		if !known {
			continue // the term that was there
		}
		w := window{from: t.Before.Add(-limits.Surprise), to: t.At, changes: int(t.Term - last.Term)}
		for i := range x.h.Faults {
			if f := &x.h.Faults[i]; f.Struck <= t.At && t.At <= healed(f).Add(limits.Detect) {
				w.to, w.provoked = max(w.to, healed(f)), true
			}
		}
		w.to = w.to.Add(limits.Tail)
		w.late = max(w.to, t.At.Add(limits.Attempt))
		all[t.Shard] = append(all[t.Shard], w)
	}
	for i := range x.h.Faults {
		f := &x.h.Faults[i]
		for _, shard := range f.Shards {
			if !x.sawTerm(shard, f, limits) && seen[shard] < healed(f) {
				w := window{from: f.Struck, to: healed(f).Add(limits.Tail), changes: 1, provoked: true}
				w.late = max(w.to, w.from.Add(limits.Attempt))
				all[shard] = append(all[shard], w)
			}
		}
	}
	x.addDeaf(all)
	x.addLeaps(all, limits)
	for _, ws := range all {
		slices.SortStableFunc(ws, func(a, b window) int { return cmp.Compare(a.from, b.from) })
	}
	for _, shard := range slices.Sorted(maps.Keys(all)) {
		all[0] = append(all[0], all[shard]...)
	}
	return all
}

// sawTerm tells whether a new term of a shard was seen to begin in a fault.
func (x *Index) sawTerm(shard uint32, f *history.Fault, limits Limits) bool {
	return slices.ContainsFunc(x.h.Terms, func(t history.Term) bool {
		return t.Shard == shard && t.Before != 0 && f.Struck <= t.At && t.At <= healed(f).Add(limits.Detect)
	})
}

// addDeaf makes the windows of the faults that lost receivers' answers, for the shards that their nodes may have led.
func (x *Index) addDeaf(all map[uint32][]window) {
	for i := range x.h.Faults {
		f := &x.h.Faults[i]
		if !f.Deaf {
			continue
		}
		w := window{from: f.Struck, to: healed(f).Add(patience), changes: 1, provoked: true, stays: true}
		w.late, w.begun = w.to, w.to
		x.addToLed(all, w, f.Nodes, f.Struck, healed(f))
	}
}

// addLeaps makes the windows of clocks that were set ahead by so much that leases ended over it whose attempts were
// under way: begun before, or granted before and committed a little later.
func (x *Index) addLeaps(all map[uint32][]window, limits Limits) {
	for _, l := range x.clocks.leaps(leaseMargin) {
		w := window{from: l.at, to: l.at, begun: l.at.Add(limits.Settle), changes: 1, provoked: true, stays: true}
		for i := range x.h.Faults {
			if f := &x.h.Faults[i]; f.Struck <= l.at && l.at <= healed(f) {
				w.to = max(w.to, healed(f))
			}
		}
		w.to = w.to.Add(limits.Tail)
		w.late = w.to
		x.addToLed(all, w, l.nodes, l.at, l.at)
	}
}

// addToLed adds a window to those of all shards that one of these nodes may have led between two instants.
func (x *Index) addToLed(all map[uint32][]window, w window, nodes []string, from, to history.Instant) {
	shards := map[uint32]bool{}
	for _, t := range x.order {
		shards[t.shard] = true
	}
	for shard := range shards {
		if x.mayLead(shard, nodes, from, to) {
			all[shard] = append(all[shard], w)
		}
	}
}

// mayLead tells whether one of these nodes may have led a shard between two instants: by the terms that were seen, or
// if none was.
func (x *Index) mayLead(shard uint32, nodes []string, from, to history.Instant) bool {
	var reign *history.Term
	rules := func(until history.Instant) bool {
		return slices.Contains(nodes, reign.Leader) && reign.Before <= to && from <= until
	}
	for i := range x.h.Terms {
		switch t := &x.h.Terms[i]; {
		case t.Shard != shard:
		case reign == nil:
			reign = t
		case t.Term != reign.Term:
			unseen := t.Term > reign.Term+1 && t.Before <= to && from <= t.At // one that came and went between
			if unseen || rules(t.At) {
				return true
			}
			reign = t
		}
	}
	return reign == nil || rules(history.Forever)
}

// countFailovers tells how many there were, and how many of them no fault had provoked.
func countFailovers(windows map[uint32][]window) (all, unprovoked int) {
	for shard, ws := range windows {
		for _, w := range ws {
			if shard == 0 || w.stays {
				continue
			}
			all++
			if !w.provoked {
				unprovoked++
			}
		}
	}
	return all, unprovoked
}

// healed is when a fault was over, Forever if it never was.
func healed(f *history.Fault) history.Instant {
	if f.Mended == 0 {
		return history.Forever
	}
	return f.Mended
}

// calmFrom is the first instant from at on at which no fault is under way, nor was until pause before, nor comes until
// room after.
func (x *Index) calmFrom(at history.Instant, pause, room time.Duration) history.Instant {
	for i := 0; i < len(x.h.Faults); {
		f := &x.h.Faults[i]
		if f.Struck <= at.Add(room) && healed(f).Add(pause) > at {
			at = healed(f).Add(pause)
			i = 0 // one that was passed over may be under way by then
			continue
		}
		i++
	}
	return at
}

// failovers are the windows of all shards, and what tells whether they explain that an attempt came again.
type failovers struct {
	x       *Index
	limits  Limits
	windows map[uint32][]window
	writes  map[uint32][]*op
	waits   backlogs
}

func (x *Index) failovers(limits Limits) failovers {
	return failovers{x, limits, x.windows(limits), x.writesByShard(), x.backlogs()}
}

// settledAt is when the outcome of an arrival was committed at the latest: a while after its answer in calm, or, in
// whatever turmoil, when its shard took a write that began a while after it.
func (o failovers) settledAt(shard uint32, p *arrival) history.Instant {
	answered := answeredAt(p)
	calm := o.x.calmFrom(answered, o.limits.Recover, o.limits.Settle).Add(o.limits.Settle)
	proven := answered.Add(o.limits.Settle)
	took, ok := firstAfter(o.writes[shard], proven)
	if !ok {
		return calm
	}
	return min(calm, proven.Add(took))
}

// explain are the windows of a shard that may have made a of p: those that began before its outcome was committed, and
// those that began before what these granted anew had come to an end. A leader may die before it starts what it took
// over, and the next one takes it over from it; and what it granted anew may have to wait like everything else.
func (o failovers) explain(shard uint32, p, a *arrival) []*window {
	var found []*window
	open := o.settledAt(shard, p) // until then an attempt may be under way
	for i := range o.windows[shard] {
		w := &o.windows[shard][i]
		to, until := w.to, open
		if a.Fence < p.Fence {
			to = w.late
		}
		if w.stays {
			until = answeredAt(p).Add(transit)
		}
		if until < w.from || w.stays && p.At > w.begun {
			continue
		}
		if !w.stays {
			open = max(open, w.to)
		}
		if a.At >= w.from && (a.At <= to || a.At.Add(-o.waits.before(shard, a.At)) <= to) {
			found = append(found, w)
		}
	}
	return found
}

// answeredAt is when the receiver answered an arrival: no outcome can be committed before that.
func answeredAt(a *arrival) history.Instant { return a.At.Add(a.Held) }
