package fsm

import (
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/internal/store"
	"github.com/belfryhq/belfry/fsm/task"
)

// applyAdvance moves the wheel and carries on each task that has come due, in order.
func (a *applier) applyAdvance(r request) *fsmpb.Result {
	op := r.GetAdvance()
	a.bind(op.Policy)
	credits := newCredits(op)
	more := a.store.Advance(op.ToMs, int(op.Max), func(e store.Edit) { a.comeDue(e, credits) })
	a.store.TrimTombstones()
	return &fsmpb.Result{Code: fsmpb.Code_CODE_OK, More: more}
}

// comeDue applies the transition of a task whose instant in the wheel has come, by the task's state.
func (a *applier) comeDue(e store.Edit, credits *credits) {
	switch e.State() {
	case fsmpb.State_STATE_SCHEDULED, fsmpb.State_STATE_RETRYING:
		e.LeaveList()
		a.becomeReady(e, e.WaitsUntilMs(), credits)
	case fsmpb.State_STATE_READY:
		expire(e)
	case fsmpb.State_STATE_FIRING:
		a.endLease(e, credits)
	case fsmpb.State_STATE_REPEATING:
		a.recur(e, credits)
	case fsmpb.State_STATE_DEAD:
		if e.Rule().KeepDeadMs > 0 { // otherwise the queue's rule now keeps dead letters without a limit
			e.Drop()
		}
	default: // a tombstone whose retention has ended
		e.Drop()
	}
}

// becomeReady grants a due task at once if its lane has credit and no other task waits there. Otherwise the task joins
// the lane's ready tasks, as does a task with a group or a priority of its own: only the leader knows its turn. due is
// the instant before which the attempt may not start.
func (a *applier) becomeReady(e store.Edit, due int64, credits *credits) {
	e.Begin()
	expiry := expiryOf(e.Task)
	if expiry != 0 && a.store.NowMs >= expiry {
		expire(e)
		return
	}
	l, priority := e.OpenLane()
	if l.Ready() == 0 && priority == task.DefaultPriority {
		if taker, ok := credits.take(l); ok {
			a.startAttempt(e, l, due, credits.policy, taker)
			return
		}
	}
	e.SetState(fsmpb.State_STATE_READY)
	e.Wait(l, priority)
	if expiry != 0 {
		e.WaitUntil(expiry + a.store.HorizonMs)
	}
}

// expiryOf returns the instant by which the first attempt of a due task must begin. It returns 0 if the task never
// expires or an attempt has begun.
func expiryOf(t store.Task) int64 {
	if t.Attempts() > 0 {
		return 0
	}
	if after := t.ExpiresAfterMs(); after > 0 {
		return t.FireAtMs() + after
	}
	return 0
}

// expire makes a task a dead letter because no attempt of the task began in time.
func expire(e store.Edit) {
	e.SetLastError("expired")
	e.Bury()
}
