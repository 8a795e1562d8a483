package linear

import "github.com/belfryhq/belfry/chaos/history"

// step is a call that was answered, or a grant that arrived: something that has a place in the order.
type step struct {
	operation // of a call
	read      bool
	grant     *grant // not nil: it is one

	call       *history.Call // nil: it is a grant
	start, end history.Instant

	answer answer
	sight  *sight // of the task, as the answer shows it; nil: it shows none
	cancel outcome
	bad    string // not empty: an answer that no task gives, and why
	once   int    // the class of events that it cannot come after; <0: there is none

	number  uint64 // of the last change as it is after the step; 0: not known
	changes bool   // the number is the step's own
	before  uint64 // the highest number before it that any step has
	owned   bool   // another step's own number is the same
}

// sight is a task as an answer shows it.
type sight struct {
	phase      phase
	attempts   int
	fireAt     history.Instant // 0: it does not say
	outcome    outcome
	wrote      int64
	payload    bool // wrote says something
	previous   phase
	asReplaced bool // previous says something
}

// grant is an attempt that was seen to begin.
type grant struct {
	arrival *history.Arrival
	webhook int // its webhook-id's number
	wrote   int64
}

// inOrder tells whether the step may follow when number is the last one.
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

// finish gives what becomes of a task, which is s at that instant, by the step, if it may be taken then.
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
		// it had happened, and would have been told so
	default:
		x.perform(s, func(r result) {
			if next, ok := p.answered(r, x); ok {
				yield(next)
			}
		})
	}
}

// answered holds what an operation came to against the answer.
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

// tellsCreated: only a batch's answer says whether a schedule made its task.
func (x *step) tellsCreated() bool { return x.call.Answer.Status != 0 }

// refused holds a task against what a conflict says of it.
func (x *step) refused(s state) (_ state, ok bool) {
	if x.sight == nil {
		return s, true
	}
	if s.phase != x.sight.phase {
		return s, false
	}
	return s.counts(x.sight.attempts)
}

// seen holds a task against a read.
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

// shows holds a task against what an answer shows of it, and takes over what it did not know.
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

// isDue pins the due time.
func (p *partition) isDue(s state, at history.Instant) (_ state, ok bool) {
	if s.known && at != s.fireAt || at < s.fireAt.Add(-p.clocks.apart) {
		return s, false
	}
	s.fireAt, s.known = at, true
	return s, true
}

// granted makes the step of a grant: of a task that is due, or whose attempt runs and is granted anew or given up.
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
	}
	return next, true
}
