package check

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/belfryhq/belfry/chaos/history"
)

// window is a time in which attempts of a shard may be repeated, because the shard's leader changed or lost its
// attempts.
type window struct {
	from, to history.Instant
	late     history.Instant // until when attempts of the previous leader may arrive
	changes  int             // most changes of leader, and so most repeats of one attempt
	provoked bool            // a fault caused the change; else the cluster changed its leader by itself
	graceful bool            // the only faults were nodes that were asked to stop
	again    bool            // the process that led before leads again: it repeats none of its own attempts
	stays    bool            // receivers' answers were lost or leases ended, and no leader changed
	begun    history.Instant // of stays: latest arrival of an attempt that may be repeated
	early    bool            // only attempts that arrived before their due time may be repeated
}

const (
	// patience is the longest time that a node waits for a lost answer, with all margins.
	patience = 20 * time.Second
	// transit is the longest time that an answer is on its way.
	transit = 100 * time.Millisecond
	// leaseMargin is the shortest time that a lease outlasts the deadline of its attempt.
	leaseMargin = 5 * time.Second
)

// windows returns the windows by shard, sorted by start. Key 0 holds the windows of all shards, for tasks whose shard
// is not known. The sources of windows are:
//
//   - Each term that was seen to begin. Terms only rise, so a gap in their numbers counts the terms between two sights.
//   - Each fault that struck the shard's leader, if no new term was seen to follow it and the last sight of the shard's
//     term precedes the end of the fault.
//   - Each fault that lost receivers' answers, for every shard that the fault's nodes may have led: the nodes make
//     these attempts again.
//   - Each clock that leapt ahead over the ends of leases, for the shards that its nodes may have led.
func (x *Index) windows(limits Limits) map[uint32][]window {
	all := map[uint32][]window{}
	before, seen := map[uint32]history.Term{}, map[uint32]history.Instant{}
	for _, t := range x.h.Terms {
		last, known := before[t.Shard]
		before[t.Shard], seen[t.Shard] = t, t.At
		if known && t.Term == last.Term {
			seen[t.Shard] = t.Before // the last sight of that term
			continue
		}
		if !known {
			continue // the term at the start of the record
		}
		w := window{from: t.Before.Add(-limits.Surprise), to: t.At, changes: int(t.Term - last.Term)}
		w.again = x.leadsAgain(last, t)
		for i := range x.h.Faults {
			if f := &x.h.Faults[i]; f.Struck <= t.At && t.At <= healed(f).Add(limits.Detect) {
				w.graceful = f.Asked && (w.graceful || !w.provoked)
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
				w := window{from: f.Struck, to: healed(f).Add(limits.Tail), changes: 1, provoked: true, graceful: f.Asked}
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

// leadsAgain reports whether two terms in succession had the same leading process, as far as the faults tell.
func (x *Index) leadsAgain(last, next history.Term) bool {
	if next.Leader == "" || next.Leader != last.Leader || next.Term != last.Term+1 {
		return false
	}
	return !slices.ContainsFunc(x.h.Faults, func(f history.Fault) bool {
		return !f.Spared && slices.Contains(f.Nodes, next.Leader) && f.Struck <= next.At && last.At <= healed(&f)
	})
}

// sawTerm reports whether a new term of a shard was seen to begin during a fault, or up to limits.Detect after it.
func (x *Index) sawTerm(shard uint32, f *history.Fault, limits Limits) bool {
	return slices.ContainsFunc(x.h.Terms, func(t history.Term) bool {
		return t.Shard == shard && t.Before != 0 && f.Struck <= t.At && t.At <= healed(f).Add(limits.Detect)
	})
}

// addDeaf adds the windows of the faults that lost receivers' answers, for the shards that the faults' nodes may have
// led.
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

// addLeaps adds the windows of clocks that leapt ahead by more than leaseMargin, which ends the leases of running
// attempts. The attempts that repeat arrived before the leap, or up to limits.Settle after it if their grant was on its
// way.
//
// A clock that no other node checks begins attempts early as long as it is ahead. A leader that takes them over, such
// as a new voter with a right clock, begins them again when its own clock shows their due time.
func (x *Index) addLeaps(all map[uint32][]window, limits Limits) {
	for _, l := range x.clocks.leaps(leaseMargin) {
		w := window{from: l.at, to: l.at, begun: l.at.Add(limits.Settle), changes: 1, provoked: true, stays: true}
		for i := range x.h.Faults {
			if f := &x.h.Faults[i]; f.Struck <= l.at && l.at <= healed(f) {
				w.to = max(w.to, healed(f))
			}
		}
		if l.lone > 0 {
			early := w
			early.early, early.begun, early.to = true, w.to, w.to.Add(l.lone+limits.Tail)
			early.late = early.to
			x.addToLed(all, early, l.nodes, l.at, l.at)
		}
		w.to = w.to.Add(limits.Tail)
		w.late = w.to
		x.addToLed(all, w, l.nodes, l.at, l.at)
	}
}

// addToLed adds a window to every shard that one of the nodes may have led between two instants.
func (x *Index) addToLed(all map[uint32][]window, w window, nodes []string, from, to history.Instant) {
	shards := map[uint32]bool{}
	for _, t := range x.order {
		for _, shard := range t.known() {
			shards[shard] = true
		}
	}
	for shard := range shards {
		if x.mayLead(shard, nodes, from, to) {
			all[shard] = append(all[shard], w)
		}
	}
}

// mayLead reports whether one of the nodes may have led a shard between two instants, by the terms that were seen. It
// is also true if no term of the shard was seen, or if a term may have come and gone unseen in that time.
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
			unseen := t.Term > reign.Term+1 && t.Before <= to && from <= t.At // a term came and went between
			if unseen || rules(t.At) {
				return true
			}
			reign = t
		}
	}
	return reign == nil || rules(history.Forever)
}

// countFailovers returns the number of changes of leader that have a window, and how many of them no fault caused.
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

// healed returns the end of a fault, Forever if it was never mended.
func healed(f *history.Fault) history.Instant {
	if f.Mended == 0 {
		return history.Forever
	}
	return f.Mended
}

// calmFrom returns the first instant from at on that is free of faults: no fault is under way then, none ended less
// than pause before, and none strikes within room after.
func (x *Index) calmFrom(at history.Instant, pause, room time.Duration) history.Instant {
	for i := 0; i < len(x.h.Faults); {
		f := &x.h.Faults[i]
		if f.Struck <= at.Add(room) && healed(f).Add(pause) > at {
			at = healed(f).Add(pause)
			i = 0 // a fault checked before may be under way by then
			continue
		}
		i++
	}
	return at
}

// failovers holds the windows of all shards, and the records that decide which windows explain a repeat.
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

// settledAt returns the latest instant at which the outcome of arrival p was committed. It is the earlier of two
// instants:
//
//   - limits.Settle into the first calm after the answer;
//   - the first answer of the shard to a write that began limits.Settle or more after p's answer, even amid faults. It
//     proves nothing about a task that may have changed its shard, whose outcome may be on its way to the other one.
func (o failovers) settledAt(t *task, p *arrival) history.Instant {
	answered := answeredAt(p)
	calm := o.x.calmFrom(answered, o.limits.Recover, o.limits.Settle).Add(o.limits.Settle)
	proven := answered.Add(o.limits.Settle)
	shards := t.known()
	took, ok := firstAfter(o.writes[shards[0]], proven)
	if !ok || len(shards) > 1 {
		return calm
	}
	return min(calm, proven.Add(took))
}

// windowsOf returns the windows of all shards that may have held a task, sorted by start.
func (o failovers) windowsOf(t *task) []*window {
	var all []*window
	for _, shard := range t.known() {
		for i := range o.windows[shard] {
			all = append(all, &o.windows[shard][i])
		}
	}
	slices.SortStableFunc(all, func(a, b *window) int { return cmp.Compare(a.from, b.from) })
	return all
}

// explain returns the windows of the task's shards that may have made attempt a a repeat of p.
//
//   - A window must begin before the outcome of p was committed, or before the end of a change of leader that itself
//     began in time. A new leader may die before it starts the attempts that it took over, and the next leader takes
//     them over.
//   - The repeat must arrive within the window, or after it by no more than first attempts of the shard waited then: an
//     attempt that is granted again waits in line with them.
//   - An attempt of a task that changed its shard may be repeated up to patience after the window: a leader that dies
//     while slots are sealed leaves the attempts that it has begun there to the ends of their leases.
//   - A node that was asked to stop repeats only attempts that took longer than limits.Stop.
//   - A window in which the same process leads again explains only repeats of attempts that this process took over from
//     another one, and of attempts that were under way at another shard while the slot moved.
//   - A window without a change of leader explains only repeats of attempts that arrived by its begun. Their answers
//     may precede the window by up to transit.
func (o failovers) explain(t *task, p, a *arrival) []*window {
	var found []*window
	open := o.settledAt(t, p)               // until then the attempt may be in flight
	taken := history.Instant(math.MinInt64) // until then a new leader may take it over
	for _, w := range o.windowsOf(t) {
		to, until := w.to, open
		if a.Fence < p.Fence {
			to = w.late
		}
		if len(t.known()) > 1 {
			to = to.Add(patience)
		}
		if w.stays {
			until = answeredAt(p).Add(transit)
		}
		if w.graceful && o.limits.Stop > 0 && p.Held <= o.limits.Stop {
			continue
		}
		if until < w.from || w.stays && p.At > w.begun || w.early && p.At >= p.Due {
			continue
		}
		if w.again && len(t.known()) == 1 && taken < w.from {
			continue
		}
		if !w.stays {
			open = max(open, w.to)
		}
		if !w.stays && w.to >= p.At {
			taken = max(taken, w.to)
		}
		if a.At >= w.from && (a.At <= to || a.At.Add(-o.waits.before(t.known(), a.At)) <= to) {
			found = append(found, w)
		}
	}
	return found
}

// answeredAt returns the instant at which the receiver answered an arrival. No outcome is committed before it.
func answeredAt(a *arrival) history.Instant { return a.At.Add(a.Held) }

// backlogs holds, by shard, how long first attempts waited, in the order of their arrival. A wait counts from the due
// time, or from the last answer about the payload's operation if that is later. Attempts that a new leader grants again
// wait in the same queue.
type backlogs map[uint32][]wait

type wait struct {
	at   history.Instant
	long time.Duration
}

func (x *Index) backlogs() backlogs {
	all := backlogs{}
	for _, t := range x.order {
		for i, a := range t.arrivals {
			o := x.writes[a.Wrote]
			if a.Pulled || o == nil || a.Attempt > 1 || seenBefore(t.arrivals[:i], a) {
				continue
			}
			for _, shard := range t.known() {
				all[shard] = append(all[shard], wait{a.At, a.At.Sub(max(a.Due, o.last))})
			}
		}
	}
	for _, waits := range all {
		slices.SortFunc(waits, func(a, b wait) int { return cmp.Compare(a.at, b.at) })
	}
	return all
}

// around is the longest time between two arrivals whose waits are taken as alike.
const around = time.Second

// before returns the longest wait of the first attempts that arrived at one of the shards within around before an
// instant.
func (b backlogs) before(shards []uint32, at history.Instant) (longest time.Duration) {
	for _, shard := range shards {
		longest = max(longest, b.beforeAt(shard, at))
	}
	return longest
}

func (b backlogs) beforeAt(shard uint32, at history.Instant) (longest time.Duration) {
	waits := b[shard]
	byAt := func(w wait, at history.Instant) int { return cmp.Compare(w.at, at) }
	i, _ := slices.BinarySearchFunc(waits, at.Add(-around), byAt)
	for ; i < len(waits) && waits[i].at <= at; i++ {
		longest = max(longest, waits[i].long)
	}
	return longest
}

// depositions holds, by shard, the instants at which a fault struck the shard's leader and a new term followed soon.
type depositions map[uint32][]history.Instant

func (x *Index) depositions(limits Limits) depositions {
	all := depositions{}
	for i := range x.h.Faults {
		f := &x.h.Faults[i]
		for _, shard := range f.Shards {
			if x.sawTerm(shard, f, limits) {
				all[shard] = append(all[shard], f.Struck)
			}
		}
	}
	return all
}

// between reports whether one of the shards lost its leader between two instants.
func (d depositions) between(shards []uint32, from, to history.Instant) bool {
	return slices.ContainsFunc(shards, func(shard uint32) bool {
		return slices.ContainsFunc(d[shard], func(at history.Instant) bool { return from <= at && at <= to })
	})
}
