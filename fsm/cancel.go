package fsm

import (
	"cmp"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/internal/store"
)

// The outcomes of a cancel are values of fsmpb.CancelOutcome.
const (
	cancelled    = fsmpb.CancelOutcome_CANCEL_OUTCOME_CANCELLED
	stopped      = fsmpb.CancelOutcome_CANCEL_OUTCOME_STOPPED
	alreadyFired = fsmpb.CancelOutcome_CANCEL_OUTCOME_ALREADY_FIRED
)

// applyCancel ends the task. The answer is final: the tombstone keeps it, so that a later cancel gets the same answer.
func (m *Machine) applyCancel(r request) *fsmpb.Result {
	return &fsmpb.Result{Code: fsmpb.Code_CODE_OK, Outcome: m.cancel(r.task)}
}

func (m *Machine) cancel(t store.Task) fsmpb.CancelOutcome {
	outcome := cancelled
	switch state := t.State(); {
	case store.IsTombstone(state):
		outcome = cmp.Or(t.Outcome(), alreadyFired)
	case state == fsmpb.State_STATE_FIRING:
		outcome = stopped
		m.stop(t)
	case t.Begun():
		outcome = stopped
		m.endCancelled(t, outcome)
	case flawForgetsCancel(m.store.Number):
	default:
		m.endCancelled(t, outcome)
	}
	return outcome
}

func (m *Machine) endCancelled(t store.Task, outcome fsmpb.CancelOutcome) {
	m.store.Change(t, func(e store.Edit) {
		e.SetOutcome(outcome)
		e.Entomb(fsmpb.State_STATE_CANCELLED)
	})
	m.store.TrimTombstones()
}

// stop makes the running attempt of a task the last one.
func (m *Machine) stop(t store.Task) {
	if t.Outcome() != 0 {
		return
	}
	m.store.Change(t, func(e store.Edit) {
		e.SetOutcome(stopped)
		e.Renew()
	})
}
