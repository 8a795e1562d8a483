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

// Observe sets the receiver of events; nil: none. It gets the events of an entry in order, and owns an Event during the
// call. The texts of the Event stay valid.
func (s *Store) Observe(observer func(*task.Event)) { s.events.tell = observer }

// events tells an observer of changes.
type events struct {
	tell    func(*task.Event) // nil: no receiver
	startMs int64             // instant from which the attempt that was granted last may begin
	event   task.Event        // reused
	texts   texts
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
	r, p := t.record(), t.read()
	o := outline{
		state: fsmpb.State(r.state), attempts: p.attempts, occurrence: occurrenceIn(t.s.mem.blobs.Get(r.cold)),
		outcome: p.outcome, fireAt: r.Due(), waits: r.Due(),
	}
	if r.progress != 0 {
		o.fireAt = p.fireAt
	}
	return o
}

// added tells of a new task.
func (es *events) added(t Task) {
	if es.tell != nil {
		es.tell(es.of(t, task.EventScheduled))
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
		e := es.of(t, task.EventCancelled)
		e.Answer = strings.ToLower(strings.TrimPrefix(fsmpb.CancelOutcome(after.outcome).String(), "CANCEL_OUTCOME_"))
		es.tell(e)
	case before.state != after.state && after.state == fsmpb.State_STATE_DEAD:
		es.dead(t, ended)
	case after.attempts > before.attempts:
		es.fired(t, after)
	case !ended && isMoved(before, after):
		e := es.of(t, task.EventMoved)
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
		es.tell(es.ofAttempt(t, task.EventDelivered, after.occurrence))
	case fired && !fires && after.attempts == before.attempts, fired && after.attempts > before.attempts:
		e := es.ofAttempt(t, task.EventFailed, after.occurrence)
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
	e := es.of(t, kind)
	e.Answer = t.history().lastError
	es.tell(e)
}

func (es *events) fired(t Task, after outline) {
	e := es.of(t, task.EventFired)
	e.Attempt, e.AtMs = after.attempts, max(t.s.NowMs, es.startMs)
	e.WebhookID = es.webhookID(t, e, after.occurrence)
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

// of returns an event without its attempt. It is valid until the next one.
func (es *events) of(t Task, kind task.EventType) *task.Event {
	m, r := &t.s.mem, t.record()
	blob := m.blobs.Get(r.cold)
	number, _, manner := coldShared(blob)
	q, e := m.queues.at(number), &es.event
	*e = task.Event{
		Type: kind, Namespace: q.namespace, Queue: q.name, AtMs: t.s.NowMs, DueMs: m.fireAtOf(r),
	}
	if r.idLen != 0 {
		e.ID = es.texts.of(r.id[:r.idLen])
	} else {
		_, e.ID = m.idOf(r)
	}
	switch {
	case manner != 0:
		e.Labels = m.manners.at(manner).value.extra.Spec.Labels
	case blob[0]&coldHasExtra != 0:
		c := readCold(blob)
		e.Labels = m.labelsOf(&c)
	}
	return e
}

func (es *events) webhookID(t Task, e *task.Event, occurrence uint64) string {
	var room [webhookIDBytes]byte
	return es.texts.of(t.s.Origins.appendWebhookID(room[:0], e.Namespace, e.ID, occurrence))
}

// ofAttempt returns an event about the attempt of an occurrence that ended last.
func (es *events) ofAttempt(t Task, kind task.EventType, occurrence uint64) *task.Event {
	e := es.of(t, kind)
	e.WebhookID = es.webhookID(t, e, occurrence)
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
		skipped = append(skipped, *es.ofSkipped(t, o, count))
	}
	for i := range slices.Backward(skipped) {
		es.tell(&skipped[i])
	}
}

// ofSkipped returns the event of the last occurrences of a record, which count.
func (es *events) ofSkipped(t Task, o *fsmpb.Occurrence, count uint64) *task.Event {
	e := es.of(t, task.EventSkipped)
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

// texts makes many short strings with few allocations.
type texts struct{ strings.Builder }

const textsBytes = 4 << 10 // of an allocation

// of returns b as a string.
func (t *texts) of(b []byte) string {
	if t.Cap()-t.Len() < len(b) {
		t.Reset()
		t.Grow(max(textsBytes, len(b)))
	}
	at := t.Len()
	t.Write(b)
	return t.String()[at:]
}
