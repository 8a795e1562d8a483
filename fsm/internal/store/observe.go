package store

import (
	"fmt"
	"strings"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
)

// An observer learns what happens to tasks from the difference that each change makes, so that no transition needs to
// name its events.

// Observe sets the receiver of events; nil: none. It gets the events of an entry in order.
func (s *Store) Observe(observer func(task.Event)) { s.observer = observer }

// outline is the part of a task that events follow from.
type outline struct {
	state      fsmpb.State
	attempts   uint32
	occurrence uint64
	outcome    uint8
	fireAt     int64
	waits      int64 // instant in the wheel
}

func (s *Store) outlineOf(h handle) outline {
	r, t := s.tasks.Read(h), Task{s, h}
	p := t.read()
	return outline{
		state: fsmpb.State(r.state), attempts: p.attempts, occurrence: t.Occurrence(), outcome: p.outcome,
		fireAt: s.fireAtOf(r), waits: r.Due(),
	}
}

// tellAdded tells of a new task.
func (s *Store) tellAdded(h handle) {
	if s.observer != nil {
		s.observer(s.event(h, task.EventScheduled))
	}
}

// tellChange tells of the difference between a task and its outline before a change.
func (s *Store) tellChange(h handle, before outline) {
	after := s.outlineOf(h)
	if before == after || after.state == fsmpb.State_STATE_REPEATING {
		return
	}
	if before.occurrence != after.occurrence {
		s.tellAdded(h)
		return
	}
	ended := s.tellEnd(h, before, after)
	switch {
	case before.outcome == 0 && after.outcome != 0:
		e := s.event(h, task.EventCancelled)
		e.Answer = strings.ToLower(strings.TrimPrefix(fsmpb.CancelOutcome(after.outcome).String(), "CANCEL_OUTCOME_"))
		s.observer(e)
	case before.state != after.state && after.state == fsmpb.State_STATE_DEAD:
		s.tellDead(h, ended)
	case after.attempts > before.attempts:
		s.tellFired(h, after)
	case !ended && s.isMoved(before, after):
		e := s.event(h, task.EventMoved)
		e.DueMs = after.waits
		if after.state == fsmpb.State_STATE_READY {
			e.DueMs = s.NowMs
		}
		s.observer(e)
	}
}

// tellEnd tells of the end of an attempt, and reports whether one ended.
func (s *Store) tellEnd(h handle, before, after outline) bool {
	delivered := before.state != after.state && after.state == fsmpb.State_STATE_DELIVERED
	fired, fires := before.state == fsmpb.State_STATE_FIRING, after.state == fsmpb.State_STATE_FIRING
	switch {
	case delivered:
		s.observer(s.attemptEvent(h, task.EventDelivered))
	case fired && !fires && after.attempts == before.attempts, fired && after.attempts > before.attempts:
		e := s.attemptEvent(h, task.EventFailed)
		if after.state == fsmpb.State_STATE_RETRYING {
			e.DueMs = after.waits
		}
		s.observer(e)
	default:
		return false
	}
	return true
}

func (s *Store) tellDead(h handle, ended bool) {
	kind := task.EventExpired
	if ended {
		kind = task.EventDead
	}
	e := s.event(h, kind)
	e.Answer = readHistory(s.blob(Task{s, h}.read().history)).lastError
	s.observer(e)
}

func (s *Store) tellFired(h handle, after outline) {
	e := s.event(h, task.EventFired)
	e.Attempt, e.WebhookID, e.AtMs = after.attempts, s.webhookIDOf(h), max(s.NowMs, s.startMs)
	if after.attempts == 1 {
		e.LatenessMs = max(e.AtMs-after.fireAt, 0)
	}
	s.observer(e)
}

// isMoved reports whether a task waits for another instant than before, or is due again.
func (s *Store) isMoved(before, after outline) bool {
	switch after.state {
	case fsmpb.State_STATE_SCHEDULED, fsmpb.State_STATE_RETRYING:
		return before.waits != after.waits || before.state != after.state
	case fsmpb.State_STATE_READY:
		return before.state == fsmpb.State_STATE_DEAD
	}
	return false
}

// event returns an event without its attempt.
func (s *Store) event(h handle, kind task.EventType) task.Event {
	r, c := s.tasks.Read(h), Task{s, h}.cold()
	namespace, id := s.idOf(r)
	return task.Event{
		Type: kind, Namespace: namespace, ID: id, Queue: s.queues.at(c.queue).name, Labels: s.labelsOf(&c),
		AtMs: s.NowMs, DueMs: s.fireAtOf(r),
	}
}

// attemptEvent returns an event about the attempt that ended last.
func (s *Store) attemptEvent(h handle, kind task.EventType) task.Event {
	e := s.event(h, kind)
	e.WebhookID = s.webhookIDOf(h)
	past := readHistory(s.blob(Task{s, h}.read().history)).past
	if len(past) == 0 {
		return e
	}
	last := past[len(past)-1]
	e.Attempt, e.Node, e.Answer, e.BegunMs = last.attempt, last.node, last.err, last.start
	if last.attempt == 1 && last.start > 0 {
		e.LatenessMs = max(last.start-e.DueMs, 0)
	}
	return e
}

func (s *Store) webhookIDOf(h handle) string {
	t := Task{s, h}
	namespace, id := t.ID()
	return s.WebhookID(namespace, id, t.Occurrence())
}

// tellSkipped tells of the occurrences that a change of a schedule passed over: n of them, by its record.
func (s *Store) tellSkipped(h handle, series *fsmpb.Series, n uint64) {
	var skipped []task.Event
	for i := len(series.Past) - 1; i >= 0 && n > 0; i-- {
		o := series.Past[i]
		if o.Passed == 0 {
			continue
		}
		count := min(max(o.Count, 1), n)
		n -= count
		skipped = append(skipped, s.skippedEvent(h, o, count))
	}
	for i := range skipped {
		s.observer(skipped[len(skipped)-1-i])
	}
}

// skippedEvent returns the event of the last occurrences of a record, which count.
func (s *Store) skippedEvent(h handle, o *fsmpb.Occurrence, count uint64) task.Event {
	e := s.event(h, task.EventSkipped)
	last := o.Number + max(o.Count, 1) - 1
	schedule, _ := task.SplitSeries(e.ID)
	e.ID = task.OccurrenceID(schedule, last-count+1)
	e.DueMs = o.ScheduledMs
	e.Answer = strings.ToLower(strings.TrimPrefix(o.Passed.String(), "PASSED_"))
	if count > 1 {
		e.Answer = fmt.Sprintf("%s: %d occurrences", e.Answer, count)
	}
	return e
}
