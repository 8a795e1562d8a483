package fsm

import "github.com/belfryhq/belfry/fsm/fsmpb"

// extend moves the end of a consumer's lease.
func (m *Machine) extend(c *fsmpb.Command, at place, op *fsmpb.Extend) *fsmpb.Result {
	h := m.findAt(at, c.Namespace, c.Id)
	switch {
	case h == 0:
		return &fsmpb.Result{Code: fsmpb.Code_CODE_NOT_FOUND}
	case op.LeaseMs <= 0:
		return &fsmpb.Result{Code: fsmpb.Code_CODE_INVALID, Field: "lease", Detail: "is not more than 0s"}
	case !m.isLeasedUnder(h, op.Fence, op.Occurrence):
		return &fsmpb.Result{Code: fsmpb.Code_CODE_STALE, Revision: m.revisionOf(h)}
	}
	m.lift(h)
	m.progressOf(h).revision = m.number
	m.waitUntil(h, m.now+op.LeaseMs+m.horizon)
	m.land(h)
	result := &fsmpb.Result{Code: fsmpb.Code_CODE_OK, Revision: m.revisionOf(h)}
	if m.full && c.Answer != fsmpb.Answer_ANSWER_BRIEF {
		result.Task = m.view(h, c.Answer == fsmpb.Answer_ANSWER_FULL)
	}
	return result
}

// isLeasedUnder tells whether a consumer has the task by the grant of this fence.
func (s *state) isLeasedUnder(h handle, fence, occurrence uint64) bool {
	r := s.tasks.Read(h)
	if !r.is(fsmpb.State_STATE_FIRING) {
		return false
	}
	p := s.progress.Read(r.progress)
	c := readCold(s.blobs.Get(r.cold))
	return p.leased && p.fence == fence && c.occurrence == occurrence
}
