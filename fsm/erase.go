package fsm

import (
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/internal/store"
)

// applyErase forgets a task in any state, a tombstone included. An attempt or a lease that runs ends without a task.
func (a *applier) applyErase(r request) *fsmpb.Result {
	a.store.Change(r.task, func(e store.Edit) {
		if !store.IsTombstone(e.State()) {
			e.NoteEnd(fsmpb.State_STATE_CANCELLED, "the task was erased")
		}
		e.Drop()
	})
	return done()
}
