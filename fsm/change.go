package fsm

import (
	"github.com/belfryhq/belfry/fsm/fsmpb"
)

// cancel: see fsmpb.CancelOutcome. What it answers is final and kept with the tombstone.
func (m *Machine) cancel(h handle, op *fsmpb.Cancel) *fsmpb.Result {
	r := m.tasks.Read(h)
	switch state := fsmpb.State(r.state); {
	case isTombstone(state):
		return cancelled(m.outcomeOf(h))
	case state == fsmpb.State_STATE_FIRING:
		return m.stop(h)
	case m.begun(h):
		return m.endCancelled(h, fsmpb.CancelOutcome_CANCEL_OUTCOME_STOPPED, op.KeepUntilMs)
	case flawForgetsCancel(m.number):
		return cancelled(fsmpb.CancelOutcome_CANCEL_OUTCOME_CANCELLED)
	}
	return m.endCancelled(h, fsmpb.CancelOutcome_CANCEL_OUTCOME_CANCELLED, op.KeepUntilMs)
}

func cancelled(outcome fsmpb.CancelOutcome) *fsmpb.Result {
	return &fsmpb.Result{Code: fsmpb.Code_CODE_OK, Outcome: outcome}
}

func (m *Machine) endCancelled(h handle, outcome fsmpb.CancelOutcome, keepUntil int64) *fsmpb.Result {
	m.lift(h)
	m.progressOf(h).outcome = uint8(outcome)
	m.entomb(h, fsmpb.State_STATE_CANCELLED, keepUntil)
	m.land(h)
	m.trimTombstones()
	return cancelled(outcome)
}

// outcomeOf is what a cancel of a tombstone answers: what the first one did, or that it came too late.
func (s *state) outcomeOf(h handle) fsmpb.CancelOutcome {
	if o := s.progress.Read(s.tasks.Read(h).progress).outcome; o != 0 {
		return fsmpb.CancelOutcome(o)
	}
	return fsmpb.CancelOutcome_CANCEL_OUTCOME_ALREADY_FIRED
}

// stop lets the running attempt of a task be its last.
func (m *Machine) stop(h handle) *fsmpb.Result {
	const stopped = fsmpb.CancelOutcome_CANCEL_OUTCOME_STOPPED
	if m.progressOf(h).outcome == 0 {
		m.lift(h)
		p := m.progressOf(h)
		p.outcome, p.revision = uint8(stopped), m.number
		m.land(h)
	}
	return cancelled(stopped)
}

// fireNow makes a task due at the entry's instant.
func (m *Machine) fireNow(h handle) *fsmpb.Result {
	r := m.tasks.Read(h)
	switch fsmpb.State(r.state) {
	case fsmpb.State_STATE_SCHEDULED, fsmpb.State_STATE_RETRYING:
		m.lift(h)
		if r.progress == 0 {
			m.writeFirstOut(h)
		}
		m.waitUntil(h, min(m.now, r.Due()))
		if r.progress != 0 {
			m.progressOf(h).revision = m.number
		}
		m.land(h)
	case fsmpb.State_STATE_READY: // due already
	default:
		return m.conflict(h)
	}
	return &fsmpb.Result{Code: fsmpb.Code_CODE_OK}
}

// touch starts a task's delay again.
func (m *Machine) touch(h handle, c *fsmpb.Command, at place, op *fsmpb.Touch) *fsmpb.Result {
	switch {
	case h == 0 && op.OrSchedule == nil:
		return &fsmpb.Result{Code: fsmpb.Code_CODE_NOT_FOUND}
	case h == 0 || m.begun(h) && op.OrSchedule != nil:
		return m.schedule(h, c, at, op.OrSchedule)
	case m.begun(h):
		return m.conflict(h)
	}
	was := readCold(m.blobs.Get(m.tasks.Read(h).cold))
	delay := was.delay
	if op.DelayMs != nil {
		delay = *op.DelayMs
	}
	if delay == noDelay {
		return &fsmpb.Result{Code: fsmpb.Code_CODE_NO_DELAY, Revision: m.revisionOf(h)}
	}
	m.lift(h)
	if delay != was.delay {
		m.rewriteCold(h, func(c *cold) { c.delay = delay })
	}
	m.reschedule(h, touchedDue(op, delay, was.created))
	m.land(h)
	return &fsmpb.Result{Code: fsmpb.Code_CODE_OK}
}

// touchedDue is receipt + delay, within the bounds of a debounce.
func touchedDue(op *fsmpb.Touch, delay, created int64) int64 {
	due := op.ReceivedAtMs + delay
	if op.NoLaterThanMs != nil {
		due = min(due, *op.NoLaterThanMs)
	}
	if op.NoLaterThanAgeMs != nil {
		due = min(due, created+*op.NoLaterThanAgeMs)
	}
	return due
}
