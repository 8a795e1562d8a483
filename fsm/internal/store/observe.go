package store

import (
	"fmt"
	"slices"
	"strings"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
)

// An observer learns what happens to tasks from the difference that each change makes, so that no transition needs to
// name its events.

// Observe sets the receiver of events; nil: none. It gets the events of an entry in order.
func (s *Store) Observe(observer func(task.Event)) { s.events.tell = observer }

// events tells an observer of changes.
type events struct {
	tell    func(task.Event) // nil: nobody wants events
	startMs int64            // instant from which the attempt that was granted last may begin
}

// outline is the part of a task that events follow from.
type outline struct {
	state      fsmpb.State
	attempts   uint32
	occurrence uint64
	outcome    uint8
	fireAt     int64
	waits      int64 // instant in the wheel
}

func outlineOf(t Task) outline {
	p := t.read()
	return outline{
		state: t.State(), attempts: p.attempts, occurrence: t.Occurrence(), outcome: p.outcome,
		fireAt: t.FireAtMs(), waits: t.WaitsUntilMs(),
	}
}

// added tells of a new task.
func (es *events) added(t Task) {
	if es.tell != nil {
		es.tell(eventOf(t, task.EventScheduled))
	}
}

// changed tells of the difference between a task and its outline before a change.
func (es *events) changed(t Task, before outline) {
	after := outlineOf(t)
	if before == after || after.state == fsmpb.State_STATE_REPEATING {
		return
	}
	if before.occurrence != after.occurrence {
		es.added(t)
		return
	}
	ended := es.ended(t, before, after)
	switch {
	case before.outcome == 0 && after.outcome != 0:
		e := eventOf(t, task.EventCancelled)
		e.Answer = strings.ToLower(strings.TrimPrefix(fsmpb.CancelOutcome(after.outcome).String(), "CANCEL_OUTCOME_"))
		es.tell(e)
	case before.state != after.state && after.state == fsmpb.State_STATE_DEAD:
		es.dead(t, ended)
	case after.attempts > before.attempts:
		es.fired(t, after)
	case !ended && isMoved(before, after):
		e := eventOf(t, task.EventMoved)
		e.DueMs = after.waits
		if after.state == fsmpb.State_STATE_READY {
			e.DueMs = t.s.NowMs
		}
		es.tell(e)
	}
}

// ended tells of the end of an attempt, and reports whether one ended.
func (es *events) ended(t Task, before, after outline) bool {
	delivered := before.state != after.state && after.state == fsmpb.State_STATE_DELIVERED
	fired, fires := before.state == fsmpb.State_STATE_FIRING, after.state == fsmpb.State_STATE_FIRING
	switch {
	case delivered:
		es.tell(attemptEventOf(t, task.EventDelivered, after.occurrence))
	case fired && !fires && after.attempts == before.attempts, fired && after.attempts > before.attempts:
		e := attemptEventOf(t, task.EventFailed, after.occurrence)
		if after.state == fsmpb.State_STATE_RETRYING {
			e.DueMs = after.waits
		}
		es.tell(e)
	default:
		return false
	}
	return true
}

func (es *events) dead(t Task, ended bool) {
	kind := task.EventExpired
	if ended {
		kind = task.EventDead
	}
	e := eventOf(t, kind)
	e.Answer = t.history().lastError
	es.tell(e)
}

func (es *events) fired(t Task, after outline) {
	e := eventOf(t, task.EventFired)
	e.Attempt, e.AtMs = after.attempts, max(t.s.NowMs, es.startMs)
	e.WebhookID = t.s.Origins.WebhookID(e.Namespace, e.ID, after.occurrence)
	if after.attempts == 1 {
		e.LatenessMs = max(e.AtMs-after.fireAt, 0)
	}
	es.tell(e)
}

// isMoved reports whether a task waits for another instant than before, or is due again.
func isMoved(before, after outline) bool {
	switch after.state {
	case fsmpb.State_STATE_SCHEDULED, fsmpb.State_STATE_RETRYING:
		return before.waits != after.waits || before.state != after.state
	case fsmpb.State_STATE_READY:
		return before.state == fsmpb.State_STATE_DEAD
	}
	return false
}

// eventOf returns an event without its attempt.
func eventOf(t Task, kind task.EventType) task.Event {
	c := t.cold()
	namespace, id := t.ID()
	return task.Event{
		Type: kind, Namespace: namespace, ID: id, Queue: t.s.mem.queues.at(c.queue).name, Labels: t.s.mem.labelsOf(&c),
		AtMs: t.s.NowMs, DueMs: t.FireAtMs(),
	}
}

// attemptEventOf returns an event about the attempt of an occurrence that ended last.
func attemptEventOf(t Task, kind task.EventType, occurrence uint64) task.Event {
	e := eventOf(t, kind)
	e.WebhookID = t.s.Origins.WebhookID(e.Namespace, e.ID, occurrence)
	last, ok := t.lastEnded()
	if !ok {
		return e
	}
	e.Attempt, e.Node, e.Answer, e.BegunMs = last.attempt, last.node, last.err, last.start
	if last.attempt == 1 && last.start > 0 {
		e.LatenessMs = max(last.start-e.DueMs, 0)
	}
	return e
}

// skipped tells of the occurrences that a change of a schedule passed over: n of them, by its record.
func (es *events) skipped(t Task, series *fsmpb.Series, n uint64) {
	var skipped []task.Event
	for i := len(series.Past) - 1; i >= 0 && n > 0; i-- {
		o := series.Past[i]
		if o.Passed == 0 {
			continue
		}
		count := min(max(o.Count, 1), n)
		n -= count
		skipped = append(skipped, skippedEventOf(t, o, count))
	}
	for _, e := range slices.Backward(skipped) {
		es.tell(e)
	}
}

// skippedEventOf returns the event of the last occurrences of a record, which count.
func skippedEventOf(t Task, o *fsmpb.Occurrence, count uint64) task.Event {
	e := eventOf(t, task.EventSkipped)
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
