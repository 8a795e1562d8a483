package fsm

import "github.com/belfryhq/belfry/fsm/fsmpb"

// replay makes a dead letter due again, as if no attempt had been made, behind all others of its lane. It stays the
// same occurrence: a receiver that took one of the earlier attempts knows it by its webhook id.
func (m *Machine) replay(h handle) *fsmpb.Result {
	if !m.tasks.Read(h).is(fsmpb.State_STATE_DEAD) {
		return m.conflict(h)
	}
	m.lift(h)
	m.stopWaiting(h)
	m.forgetExpiry(h)
	p := m.progressOf(h)
	p.attempts = 0
	m.setLastError(p, "")
	m.setState(h, fsmpb.State_STATE_READY)
	m.waitReady(h, m.openLane(m.tasks.Read(h)))
	m.land(h)
	return &fsmpb.Result{Code: fsmpb.Code_CODE_OK}
}

// dropDead forgets a dead letter.
func (m *Machine) dropDead(h handle) *fsmpb.Result {
	if !m.tasks.Read(h).is(fsmpb.State_STATE_DEAD) {
		return m.conflict(h)
	}
	m.drop(h)
	return &fsmpb.Result{Code: fsmpb.Code_CODE_OK}
}
