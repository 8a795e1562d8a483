package fsm

import (
	"google.golang.org/protobuf/proto"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/internal/store"
	"github.com/belfryhq/belfry/fsm/task"
)

func (a *applier) applySchedule(r request) *fsmpb.Result { return a.schedule(r, r.GetSchedule()) }

// schedule creates the task, or replaces an existing one in any state.
func (a *applier) schedule(r request, op *fsmpb.Schedule) *fsmpb.Result {
	if _, _, ok := task.SplitOccurrence(r.Id); ok {
		const detail = "is that of an occurrence, which only its schedule makes"
		return invalid(r.task, &task.FieldError{Field: "id", Detail: detail})
	}
	if _, place := task.SplitFollowUp(r.Id); place > 0 {
		const detail = "is that of a follow-up, which only the end of the task before it makes"
		return invalid(r.task, &task.FieldError{Field: "id", Detail: detail})
	}
	if task.HasMasked(op.GetSpec().GetTarget()) {
		kept, err := keepMasked(r.task, op.Spec)
		if err != nil {
			return invalid(r.task, err)
		}
		op = proto.CloneOf(op)
		op.Spec = kept
	}
	if !r.task.Exists() {
		a.store.Add(r.at, r.Namespace, r.Id, r.Key, a.contentOf(op), op.FireAtMs)
		return a.result(fsmpb.Code_CODE_CREATED)
	}
	if op.GeneratedId {
		return refused(r.task, fsmpb.Code_CODE_KEY_FORGOTTEN)
	}
	result := &fsmpb.Result{Code: fsmpb.Code_CODE_OK, Previous: r.task.State()}
	if store.IsTombstone(result.Previous) {
		result.Code = fsmpb.Code_CODE_CREATED
	}
	a.replace(r.task, op)
	return result
}

// keepMasked returns a copy of spec in which each masked credential is replaced by the task's own. The task may not
// exist.
func keepMasked(t store.Task, spec *fsmpb.Spec) (*fsmpb.Spec, *task.FieldError) {
	var stored *fsmpb.Target
	if t.Exists() {
		stored = t.Target()
	}
	spec = proto.CloneOf(spec)
	spec.Target = task.KeepMasked(spec.Target, stored)
	if err := task.CheckMasked(spec.Target); err != nil {
		return nil, err
	}
	return spec, task.CheckSpec(spec)
}

// contentOf returns the content of a new occurrence.
func (a *applier) contentOf(op *fsmpb.Schedule) store.Content {
	delay := int64(store.NoDelay)
	if op.DelayMs != nil {
		delay = *op.DelayMs
	}
	return store.Content{
		Spec: specOrEmpty(op), CreatedMs: op.ReceivedAtMs, Occurrence: a.store.Number, DelayMs: delay,
	}
}

// replace starts a new occurrence under the same id. The keys that the task remembers stay, because they belong to the
// id, not to the occurrence.
func (a *applier) replace(t store.Task, op *fsmpb.Schedule) {
	content := a.contentOf(op)
	if !t.Begun() {
		content.CreatedMs = t.CreatedMs()
	}
	a.store.Change(t, func(e store.Edit) {
		e.Rewrite(content)
		e.Reschedule(op.FireAtMs)
	})
}

func specOrEmpty(op *fsmpb.Schedule) *fsmpb.Spec {
	if op.Spec == nil {
		return &fsmpb.Spec{}
	}
	return op.Spec
}
