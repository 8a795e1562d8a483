package linear

import (
	"net/http"

	"github.com/belfryhq/belfry/chaos/history"
)

// step is an answered call, or a grant that arrived. It has a place in the order.
type step struct {
	operation // the call's operation; empty for a grant
	read      bool
	grant     *grant // nil: the step is a call

	call       *history.Call // nil: the step is a grant
	start, end history.Instant

	answer answer
	sight  *sight // the task as the answer shows it; nil: it shows none
	cancel outcome
	bad    string // why no task gives such an answer; empty: one may
	once   int    // class of events that the step cannot follow; <0: none

	number  uint64 // number of the task's last change after the step; 0: not known
	changes bool   // the step made the change of that number
	before  uint64 // the next lower number of any step; 0: none
	owned   bool   // some step made the change of that number
}

// sight is the task as an answer shows it.
type sight struct {
	phase      phase
	attempts   int
	fireAt     history.Instant // 0: not shown
	outcome    outcome
	wrote      int64
	payload    bool // the answer shows the payload, so wrote counts
	previous   phase
	asReplaced bool // the answer shows the replaced state, so previous counts
}

// grant is an attempt or a lease that arrived.
type grant struct {
	arrival *history.Arrival
	webhook int // number of its webhook-id within the partition
	wrote   int64
}

// mayProbe reports whether the answer to an attempt may have told of a broken receiver. The failure of a probe does not
// count as an attempt.
func (g *grant) mayProbe() bool {
	switch status := g.arrival.Answer; status {
	case 0, http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
		return true
	default:
		return status >= http.StatusInternalServerError
	}
}

// inOrder reports whether the step may follow if number is the highest number so far.
func (x *step) inOrder(number uint64) bool {
	switch {
	case x.number == 0:
		return true
	case x.changes:
		return number == x.before
	case x.owned:
		return number == x.number
	}
	return number == x.before || number == x.number
}

// finish yields the states of the task after step x, taken in state s. It yields none if the step cannot be taken.
func (p *partition) finish(s state, x *step, yield func(state)) {
	switch {
	case x.grant != nil:
		if next, ok := p.granted(s, x); ok {
			yield(next)
		}
	case x.read:
		if next, ok := x.seen(s, p); ok {
			yield(next)
		}
	case x.once >= 0 && s.times(x.once) > 0:
		// an event did the same before, so the task would not have refused the call
	default:
		x.perform(s, func(r result) {
			if next, ok := p.answered(r, x); ok {
				yield(next)
			}
		})
	}
}

// answered compares the result of an operation with the answer to step x. It returns the next state, and whether the
// two agree.
func (p *partition) answered(r result, x *step) (next state, ok bool) {
	switch {
	case r.answer != x.answer && !(r.answer == created && x.answer == done && !x.tellsCreated()):
		return r.next, false
	case r.answer == missing, r.answer == unmet, r.answer == replaced:
		return r.next, true
	case r.answer == conflict:
		return x.refused(r.next)
	case x.kind == history.Cancel && r.cancel != x.cancel:
		return r.next, false
	case x.sight != nil && x.sight.asReplaced && r.previous != x.sight.previous:
		return r.next, false
	}
	next = r.next
	switch {
	case r.changed:
		next, ok = next.at(x.number)
	case x.changes:
		return next, false
	case x.number != 0:
		next, ok = next.shows(x.number)
	default:
		ok = true
	}
	if !ok || x.sight == nil {
		return next, ok
	}
	return x.shows(next, p)
}

// tellsCreated reports whether the answer says if a schedule made its task. Only a batch's answer does.
func (x *step) tellsCreated() bool { return x.call.Answer.Status != 0 }

// refused compares a state with the task that a conflict's answer shows.
func (x *step) refused(s state) (_ state, ok bool) {
	if x.sight == nil {
		return s, true
	}
	if s.phase != x.sight.phase {
		return s, false
	}
	return s.counts(x.sight.attempts)
}

// seen compares a state with the answer to a read.
func (x *step) seen(s state, p *partition) (_ state, ok bool) {
	if x.answer == missing {
		return s, s.phase == absent
	}
	if s.phase == absent {
		return s, false
	}
	if x.number != 0 {
		if s, ok = s.shows(x.number); !ok {
			return s, false
		}
	}
	if s.outcome != x.sight.outcome {
		return s, false
	}
	return x.shows(s, p)
}

// shows compares a state with the task that an answer shows, and takes over the values that the state left open.
func (x *step) shows(s state, p *partition) (_ state, ok bool) {
	w := x.sight
	if s.phase != w.phase || w.payload && s.wrote != w.wrote {
		return s, false
	}
	if s, ok = s.counts(w.attempts); !ok || w.fireAt == 0 {
		return s, ok
	}
	return p.isDue(s, w.fireAt)
}

// isDue sets the due time to at. ok is false if the state excludes that time.
func (p *partition) isDue(s state, at history.Instant) (_ state, ok bool) {
	if s.known && at != s.fireAt || at < s.fireAt.Add(-p.clocks.apart) {
		return s, false
	}
	s.fireAt, s.known = at, true
	return s, true
}

// granted returns the state after the step of a grant. The task must be due, or have a running attempt whose grant is
// renewed or that is given up.
func (p *partition) granted(s state, x *step) (next state, ok bool) {
	g := x.grant
	switch n := g.arrival.Attempt; s.phase {
	case scheduled, ready, retrying:
		ok = n == s.attempts+1 || n > s.attempts && !s.counted
	case firing:
		renewed := !g.arrival.Pulled && (n == s.attempts || n > s.attempts && !s.counted)
		again := n == s.attempts+1 || n > s.attempts && !s.counted
		if s.holder == consumer {
			renewed, s.after = false, max(s.after, p.clocks.earliest(s.leaseEnds))
		}
		ok = s.outcome == none && (renewed || again)
	}
	if !ok || s.wrote != g.wrote || s.webhook != 0 && s.webhook != g.webhook {
		return s, false
	}
	if due := g.arrival.Due; due != 0 {
		if s, ok = p.isDue(s, due); !ok {
			return s, false
		}
	}
	if s.phase == scheduled {
		s.after = max(s.after, p.seenDue(s.fireAt))
	}
	if s.after > x.end {
		return s, false
	}
	if next, ok = s.waits(firing).at(x.number); !ok {
		return s, false
	}
	next.attempts, next.counted = g.arrival.Attempt, true
	next.fence, next.holder, next.arrived, next.webhook = x.number, service, true, g.webhook
	if g.arrival.Pulled {
		next.holder, next.leaseEnds = consumer, g.arrival.LeaseEnds
	} else {
		next.probe, next.tried = g.mayProbe(), true
	}
	return next, true
}
