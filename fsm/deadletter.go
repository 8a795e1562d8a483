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

// forgetExpiry lets a task be begun at any time.
func (s *state) forgetExpiry(h handle) {
	c := readCold(s.blobs.Get(s.tasks.Read(h).cold))
	extra := s.extraOf(&c)
	if extra.ExpiresAfterMs == 0 {
		return
	}
	extra.ExpiresAfterMs = 0
	s.rewriteCold(h, func(c *cold) { c.extra = encodeExtra(extra) })
}

// dropDead forgets a dead letter.
func (m *Machine) dropDead(h handle) *fsmpb.Result {
	if !m.tasks.Read(h).is(fsmpb.State_STATE_DEAD) {
		return m.conflict(h)
	}
	m.drop(h)
	return &fsmpb.Result{Code: fsmpb.Code_CODE_OK}
}
