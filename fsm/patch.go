package fsm

import (
	"cmp"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
)

// patch merges a merge patch into a task that no attempt of has begun, and checks the limits of what comes out.
func (m *Machine) patch(h handle, op *fsmpb.Patch) *fsmpb.Result {
	if m.begun(h) {
		return m.conflict(h)
	}
	r := m.tasks.Read(h)
	was := readCold(m.blobs.Get(r.cold))
	spec := task.MergeSpec(m.specOf(&was, true), op)
	if err := cmp.Or(task.CheckMasked(spec.Target), task.CheckSpec(spec)); err != nil {
		return m.invalid(h, err)
	}
	fireAt, delay := m.fireAtOf(r), was.delay
	if op.FireAtMs != nil {
		fireAt = *op.FireAtMs
	}
	if op.DelayMs != nil {
		delay = *op.DelayMs
	}
	m.lift(h)
	m.replaceCold(h, m.newCold(m.queueOf(r).namespace, spec, was.created, was.occurrence, delay))
	m.reschedule(h, fireAt)
	m.land(h)
	return &fsmpb.Result{Code: fsmpb.Code_CODE_OK}
}
