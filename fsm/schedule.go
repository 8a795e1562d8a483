package fsm

import (
	"google.golang.org/protobuf/proto"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
)

// schedule creates the task, or replaces the one that h is, in whatever state that is.
func (m *Machine) schedule(h handle, c *fsmpb.Command, at place, op *fsmpb.Schedule) *fsmpb.Result {
	if task.HasMasked(op.GetSpec().GetTarget()) {
		kept, err := m.keepMasked(h, op)
		if err != nil {
			return m.invalid(h, err)
		}
		op = kept
	}
	if h == 0 {
		m.create(c, at, op)
		return &fsmpb.Result{Code: fsmpb.Code_CODE_CREATED}
	}
	if op.GeneratedId {
		return &fsmpb.Result{Code: fsmpb.Code_CODE_KEY_FORGOTTEN, Revision: m.revisionOf(h)}
	}
	previous := fsmpb.State(m.tasks.Read(h).state)
	m.replace(h, op)
	if isTombstone(previous) {
		return &fsmpb.Result{Code: fsmpb.Code_CODE_CREATED, Previous: previous}
	}
	return &fsmpb.Result{Code: fsmpb.Code_CODE_OK, Previous: previous}
}

// keepMasked returns a copy of op with the credentials of the task h, 0 for none, where op says to keep them.
func (m *Machine) keepMasked(h handle, op *fsmpb.Schedule) (*fsmpb.Schedule, *task.FieldError) {
	var stored *fsmpb.Target
	if h != 0 {
		c := readCold(m.blobs.Get(m.tasks.Read(h).cold))
		stored = m.targetOf(&c, m.extraOf(&c))
	}
	op = proto.CloneOf(op)
	op.Spec.Target = task.KeepMasked(op.Spec.Target, stored)
	if err := task.CheckMasked(op.Spec.Target); err != nil {
		return nil, err
	}
	return op, task.CheckSpec(op.Spec)
}

// invalid refuses a call that would leave the task h, 0 for none, against the rules.
func (m *Machine) invalid(h handle, err *task.FieldError) *fsmpb.Result {
	return &fsmpb.Result{
		Code: fsmpb.Code_CODE_INVALID, Field: err.Field, Detail: err.Detail, Limit: err.Limit, Revision: m.revisionOf(h),
	}
}

func (m *Machine) create(c *fsmpb.Command, at place, op *fsmpb.Schedule) {
	made := m.newCold(c.Namespace, specOrEmpty(op), op.ReceivedAtMs, m.number, delayOf(op.DelayMs))
	made.first = firstKeyOf(c.Key)
	h := m.add(at, c.Namespace, c.Id, made)
	m.waitUntil(h, op.FireAtMs)
	m.land(h)
	if made.first.kept {
		m.addKeys(h)
	}
}

// replace starts a new occurrence under the same id. The keys it remembers stay: they are the id's, not the
// occurrence's.
func (m *Machine) replace(h handle, op *fsmpb.Schedule) {
	created := op.ReceivedAtMs
	if !m.begun(h) {
		c := readCold(m.blobs.Get(m.tasks.Read(h).cold))
		created = c.created
	}
	namespace := m.queueOf(m.tasks.Read(h)).namespace
	m.lift(h)
	m.replaceCold(h, m.newCold(namespace, specOrEmpty(op), created, m.number, delayOf(op.DelayMs)))
	m.reschedule(h, op.FireAtMs)
	m.land(h)
}

// reschedule puts a task back into the wheel as if nothing had begun.
func (m *Machine) reschedule(h handle, fireAt int64) {
	m.writeFirstOut(h)
	m.leaveList(h)
	m.dropProgress(h)
	r := m.tasks.Write(h)
	r.state = uint8(fsmpb.State_STATE_SCHEDULED)
	m.waitUntil(h, fireAt)
}

// begun tells whether an attempt of the current occurrence was ever begun.
func (s *state) begun(h handle) bool {
	r := s.tasks.Read(h)
	switch fsmpb.State(r.state) {
	case fsmpb.State_STATE_SCHEDULED:
		return false
	case fsmpb.State_STATE_READY:
		p := s.progress.Read(r.progress)
		return p.attempts > 0 || s.hasPast(p) // it was replayed
	}
	return true
}

func specOrEmpty(op *fsmpb.Schedule) *fsmpb.Spec {
	if op.Spec == nil {
		return &fsmpb.Spec{}
	}
	return op.Spec
}

func delayOf(ms *int64) int64 {
	if ms == nil {
		return noDelay
	}
	return *ms
}
