package fsm

import (
	"cmp"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/internal/store"
	"github.com/belfryhq/belfry/fsm/task"
)

// applyPatch merges a merge patch into a task none of whose attempts has begun, and checks the limits of the result.
func (a *applier) applyPatch(r request) *fsmpb.Result {
	if r.task.Begun() {
		return conflict(r.task)
	}
	op, content, fireAt := r.GetPatch(), r.task.Content(true), r.task.FireAtMs()
	content.Spec = task.MergeSpec(content.Spec, op)
	if err := cmp.Or(task.CheckMasked(content.Spec.Target), task.CheckSpec(content.Spec)); err != nil {
		return invalid(r.task, err)
	}
	if op.FireAtMs != nil {
		fireAt = *op.FireAtMs
	}
	if op.DelayMs != nil {
		content.DelayMs = *op.DelayMs
	}
	a.store.Change(r.task, func(e store.Edit) {
		e.Rewrite(content)
		e.Reschedule(fireAt)
	})
	return done()
}
