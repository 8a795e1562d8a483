package linear

import (
	"bytes"

	"github.com/belfryhq/belfry/chaos/history"
)

// operation is the request that all calls with one key share, or one settle of a consumer.
type operation struct {
	n    int64
	kind history.Kind
	ask  history.Ask

	// from and to bound the due time that the delay sets; 0 if the operation names an instant or sets no due time.
	from, to history.Instant

	webhook int // of a settle: number of its lease's webhook-id; 0: not known
}

// answer is the kind of answer that an operation gets.
type answer uint8

const (
	done     answer = iota // 200
	created                // 201
	missing                // 404
	conflict               // 409
	unmet                  // 412
	replaced               // 200, but nothing settled: the lease was of an earlier occurrence
)

// result is one possible result of an operation.
type result struct {
	answer   answer
	next     state
	changed  bool  // the operation changes the task; next lacks the change's number yet
	previous phase // of a schedule: phase of the replaced task
	cancel   outcome
}

// perform yields the possible results of the operation on state s, without changes by the task itself.
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

// condition returns the state in which the operation's condition holds, whether the condition may hold, and whether it
// may fail.
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

// schedulesHere reports whether the operation is a touch that schedules its own task, because it finds none to touch.
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

// payload returns the operation's number if the operation has a payload, else 0.
func (o *operation) payload() int64 {
	if o.ask.Body == 0 {
		return 0
	}
	return o.n
}

// dueIn returns the state with the due time that the operation asks for. It leaves the due time if the operation asks
// for none.
func (o *operation) dueIn(s state) state {
	switch {
	case o.ask.FireAt != 0:
		s.fireAt, s.known = o.ask.FireAt, true
	case o.from != 0:
		s.fireAt, s.known = o.from, false
	}
	return s
}

// move returns the result of a patch or of a touch. A task whose attempts began answers 409.
func (o *operation) move(s state) result {
	if s.begun() {
		return result{answer: conflict, next: s}
	}
	next := o.dueIn(s.waits(scheduled))
	if o.kind == history.Patch && o.ask.Body != 0 {
		next.wrote = o.n
	}
	if o.kind == history.Touch && o.ask.Delay == 0 {
		next.fireAt, next.known = 0, false // the task's last delay counts again, and is not tracked
	}
	return result{next: next, changed: true}
}

func (o *operation) fire(s state) result {
	switch s.phase {
	case scheduled:
		s.fireAt, s.known = 0, false // due now, unless it was due before
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

// settle yields the possible results of a consumer's settle.
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
		s.tried = s.attempts > 0
		yield(result{next: s.waits(ready), changed: true})
	default: // a nack
		yield(result{next: s.waits(retrying), changed: true})
		yield(result{next: s.ends(dead), changed: true})
	}
}

// event is a class of equal operations of unknown outcome. Each of them may happen once between the steps, or never.
// The earliest start is always used first: any later operation of the class has the same effect, and stays available.
type event struct {
	operation
	starts []history.Instant // starts of the tries, in order
}

// most is the largest count of one class in state.used. A class that reached it never runs out.
const most = 255

// ready reports whether one more operation of the class may happen before an instant, and the start of that operation.
func (e *event) ready(used int, by history.Instant) (since history.Instant, ok bool) {
	i := min(used, len(e.starts)-1)
	if used >= len(e.starts) && used < most {
		return 0, false
	}
	return e.starts[i], e.starts[i] <= by
}

// happen yields the state of the task after each event that may happen before an instant and changes the task.
func (p *partition) happen(s state, by history.Instant, yield func(state)) {
	for class := range p.events {
		e := &p.events[class]
		since, ok := e.ready(s.times(class), by)
		if !ok {
			continue
		}
		e.perform(s, func(r result) {
			if !r.changed {
				return
			}
			next, _ := r.next.at(0)
			next.after = max(next.after, since)
			next.used = withEvent(next.used, class)
			yield(next)
		})
	}
}

// times returns the number of events of a class that happened.
func (s state) times(class int) int {
	if class >= len(s.used) {
		return 0
	}
	return int(s.used[class])
}

// withEvent returns used with one more event of a class.
func withEvent(used string, class int) string {
	counts := append([]byte(used), bytes.Repeat([]byte{0}, max(0, class+1-len(used)))...)
	counts[class] = min(counts[class], most-1) + 1
	return string(counts)
}
