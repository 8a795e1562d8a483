package fsm

import (
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/internal/store"
)

// applyErase forgets a task in any state, a tombstone included. An attempt or a lease that runs ends without a task.
func (m *Machine) applyErase(r request) *fsmpb.Result {
	m.store.Change(r.task, store.Edit.Drop)
	return done()
}
