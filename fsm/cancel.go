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
func (a *applier) applyCancel(r request) *fsmpb.Result {
	return &fsmpb.Result{Code: fsmpb.Code_CODE_OK, Outcome: a.cancel(r.task)}
}

func (a *applier) cancel(t store.Task) fsmpb.CancelOutcome {
	outcome := cancelled
	switch state := t.State(); {
	case store.IsTombstone(state):
		outcome = cmp.Or(t.Outcome(), alreadyFired)
	case state == fsmpb.State_STATE_FIRING:
		outcome = stopped
		a.stop(t)
	case t.Begun():
		outcome = stopped
		a.endCancelled(t, outcome)
	case flawForgetsCancel(a.store.Number):
	default:
		a.endCancelled(t, outcome)
	}
	return outcome
}

func (a *applier) endCancelled(t store.Task, outcome fsmpb.CancelOutcome) {
	a.store.Change(t, func(e store.Edit) {
		e.SetOutcome(outcome)
		e.Entomb(fsmpb.State_STATE_CANCELLED)
	})
	a.store.TrimTombstones()
}

// stop makes the running attempt of a task the last one.
func (a *applier) stop(t store.Task) {
	if t.Outcome() != 0 {
		return
	}
	a.store.Change(t, func(e store.Edit) {
		e.SetOutcome(stopped)
		e.Renew()
	})
}
