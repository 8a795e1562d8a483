package linear

import (
	"github.com/belfryhq/belfry/chaos/history"
)

// operation is what one or several calls with the same key ask for, or one call of a consumer.
type operation struct {
	n    int64
	kind history.Kind
	ask  history.Ask

	// bounds of the due time that its delay comes to, 0 if it names an instant or sets none
	from, to history.Instant

	webhook int // of a settle: the number of the webhook-id that its lease had; 0: not known
}

// answer is what an operation comes to.
type answer uint8

const (
	done     answer = iota // 200
	created                // 201
	missing                // 404
	conflict               // 409
	unmet                  // 412
	replaced               // 200, and nothing settled: the lease was of an earlier occurrence
)

// result is one way in which an operation may go.
type result struct {
	answer   answer
	next     state
	changed  bool  // it takes a number; next does not have it yet
	previous phase // what a schedule replaced
	cancel   outcome
}

// perform gives the ways in which an operation may go, carried out on the state as it is.
func (o *operation) perform(s state, yield func(result)) {
	met, ok, mayFail := o.condition(s)
	if mayFail {
		yield(result{answer: unmet, next: s})
	}
	if !ok {
		return
	}
	switch s = met; {
	case o.kind == history.Schedule, o.schedulesHere(s):
		yield(o.schedule(s))
	case s.phase == absent:
		yield(result{answer: missing, next: s})
	case o.kind == history.Cancel:
		yield(o.cancel(s))
	case o.kind == history.Fire:
		yield(o.fire(s))
	case o.kind == history.Patch, o.kind == history.Touch:
		yield(o.move(s))
	default:
		o.settle(s, yield)
	}
}

// condition tells whether the operation's condition may hold, the state then, and whether it may fail.
func (o *operation) condition(s state) (met state, ok, mayFail bool) {
	switch r := o.ask.IfRevision; {
	case o.ask.IfAbsent:
		return s, s.phase == absent, s.phase != absent
	case r == 0:
		return s, true, false
	case s.phase == absent:
		return s, false, true
	default:
		met, ok = s.shows(r)
		return met, ok, !ok || !s.exact
	}
}

// schedulesHere: a touch that has a task to schedule does so where there is none to touch.
func (o *operation) schedulesHere(s state) bool {
	return o.kind == history.Touch && o.ask.OrSchedule && (s.phase == absent || s.begun())
}

func (o *operation) schedule(s state) result {
	next := state{phase: scheduled, rev: s.rev, counted: true, wrote: o.payload(), after: s.after, used: s.used}
	next.expires = o.ask.Expires
	r := result{next: o.dueIn(next), changed: true, previous: s.phase}
	if s.phase == absent || s.phase.tombstone() {
		r.answer = created
	}
	return r
}

// payload is the operation as the one that wrote a payload; 0: it has none.
func (o *operation) payload() int64 {
	if o.ask.Body == 0 {
		return 0
	}
	return o.n
}

// dueIn sets the due time that the operation asks for; one that asks for none leaves it.
func (o *operation) dueIn(s state) state {
	switch {
	case o.ask.FireAt != 0:
		s.fireAt, s.known = o.ask.FireAt, true
	case o.from != 0:
		s.fireAt, s.known = o.from, false
	}
	return s
}

// move is a patch, or a touch of a task that waits.
func (o *operation) move(s state) result {
	if s.begun() {
		return result{answer: conflict, next: s}
	}
	next := o.dueIn(s.waits(scheduled))
	if o.kind == history.Patch && o.ask.Body != 0 {
		next.wrote = o.n
	}
	if o.kind == history.Touch && o.ask.Delay == 0 {
		next.fireAt, next.known = 0, false // by its last delay
	}
	return result{next: next, changed: true}
}

func (o *operation) fire(s state) result {
	switch s.phase {
	case scheduled:
		s.fireAt, s.known = 0, false // now, unless it is overdue
		return result{next: s, changed: true}
	case retrying:
		return result{next: s, changed: true}
	case ready:
		return result{next: s}
	default:
		return result{answer: conflict, next: s}
	}
}

func (o *operation) cancel(s state) result {
	switch {
	case s.phase.tombstone() && s.outcome == none:
		return result{next: s, cancel: tooLate}
	case s.phase.tombstone(), s.phase == firing && s.outcome == wasStopped:
		return result{next: s, cancel: s.outcome}
	case s.phase == firing:
		s.outcome = wasStopped
		return result{next: s, changed: true, cancel: wasStopped}
	}
	s.outcome = wasCancelled
	if s.begun() {
		s.outcome = wasStopped
	}
	return result{next: s.ends(cancelled), changed: true, cancel: s.outcome}
}

// settle is what a consumer says about its lease.
func (o *operation) settle(s state, yield func(result)) {
	mine := s.fence == o.ask.Fence
	if !mine && o.kind != history.Extend && (o.webhook == 0 || s.webhook != o.webhook) {
		yield(result{answer: replaced, next: s})
		if o.webhook != 0 {
			return
		}
	}
	switch {
	case mine && s.phase == delivered && o.kind == history.Ack:
		yield(result{next: s})
	case !mine || s.phase != firing || s.holder != consumer:
		yield(result{answer: conflict, next: s})
	case o.kind == history.Ack:
		yield(result{next: s.ends(delivered), changed: true})
	case o.kind == history.Extend:
		s.leaseEnds = 0
		if o.from != 0 {
			s.leaseEnds = o.from
		}
		yield(result{next: s, changed: true})
	case s.outcome == wasStopped:
		if o.kind == history.Release {
			s = s.began(s.attempts - 1)
		}
		yield(result{next: s.ends(cancelled), changed: true})
	case o.kind == history.Release:
		s.attempts--
		yield(result{next: s.waits(ready), changed: true})
	default: // a nack
		yield(result{next: s.waits(retrying), changed: true})
		yield(result{next: s.ends(dead), changed: true})
	}
}
