package fsm

import (
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/internal/store"
)

// applyTouch starts the task's delay again.
func (a *applier) applyTouch(r request) *fsmpb.Result {
	op, t := r.GetTouch(), r.task
	switch {
	case !t.Exists() && op.OrSchedule == nil:
		return &fsmpb.Result{Code: fsmpb.Code_CODE_NOT_FOUND}
	case !t.Exists() || t.Begun() && op.OrSchedule != nil:
		return a.schedule(r, op.OrSchedule)
	case t.Begun():
		return conflict(t)
	}
	last := t.DelayMs()
	delay := last
	if op.DelayMs != nil {
		delay = *op.DelayMs
	}
	if delay == store.NoDelay {
		return refused(t, fsmpb.Code_CODE_NO_DELAY)
	}
	a.store.Change(t, func(e store.Edit) {
		if delay != last {
			e.SetDelay(delay)
		}
		e.Reschedule(touchedDue(op, delay, t.CreatedMs()))
	})
	return done()
}

// touchedDue returns the receipt plus delay, bounded by the limits of the debounce, in Unix milliseconds.
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

// applyFireNow makes the task due at the entry's instant.
func (a *applier) applyFireNow(r request) *fsmpb.Result {
	switch r.task.State() {
	case fsmpb.State_STATE_SCHEDULED, fsmpb.State_STATE_RETRYING:
		a.store.Change(r.task, func(e store.Edit) { e.Hasten(a.store.NowMs) })
	case fsmpb.State_STATE_READY: // due already
	default:
		return conflict(r.task)
	}
	return done()
}
