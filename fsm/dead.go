package fsm

import (
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/internal/store"
)

// applyReplay makes a dead letter due again, as if no attempt had been made. It goes behind all other tasks of its
// lane, or to the place of its due time if it has a group or a priority of its own. The occurrence stays the same: a
// receiver that accepted an earlier attempt recognises the task by its webhook id.
func (a *applier) applyReplay(r request) *fsmpb.Result {
	if r.task.State() != fsmpb.State_STATE_DEAD {
		return conflict(r.task)
	}
	a.store.Change(r.task, func(e store.Edit) {
		e.StopWaiting()
		e.ForgetExpiry()
		e.SetAttempts(0)
		e.SetLastError("")
		e.SetState(fsmpb.State_STATE_READY)
		e.Wait(e.OpenLane())
	})
	return done()
}

// applyDrop forgets a dead letter.
func (a *applier) applyDrop(r request) *fsmpb.Result {
	if r.task.State() != fsmpb.State_STATE_DEAD {
		return conflict(r.task)
	}
	a.store.Change(r.task, store.Edit.Drop)
	return done()
}
