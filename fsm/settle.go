package fsm

import (
	"github.com/belfryhq/belfry/fsm/fsmpb"
)

// settle ends an attempt. A pushed success counts under any fence of the current occurrence: it was delivered, whoever
// delivered it. Anything else counts only under the current fence, and what a consumer says only while it has the task.
func (m *Machine) settle(c *fsmpb.Command, at place, op *fsmpb.Settle) *fsmpb.Result {
	h := m.findAt(at, c.Namespace, c.Id)
	switch {
	case h == 0:
		return &fsmpb.Result{Code: fsmpb.Code_CODE_NOT_FOUND}
	case m.isRepeatedAck(h, op):
		return &fsmpb.Result{Code: fsmpb.Code_CODE_OK, Revision: m.revisionOf(h)}
	case m.isReplaced(h, op):
		return &fsmpb.Result{Code: fsmpb.Code_CODE_REPLACED, Revision: m.revisionOf(h)}
	case !m.accepts(h, op):
		return &fsmpb.Result{Code: fsmpb.Code_CODE_STALE, Revision: m.revisionOf(h)}
	case flawDropsSettle(m.number):
		return &fsmpb.Result{Code: fsmpb.Code_CODE_OK, Revision: m.revisionOf(h)}
	}
	m.lift(h)
	if op.Verdict == fsmpb.Verdict_VERDICT_RELEASED {
		m.release(h, op)
	} else {
		m.settleEnded(h, op)
	}
	m.land(h)
	m.trimTombstones()
	return &fsmpb.Result{Code: fsmpb.Code_CODE_OK, Revision: m.revisionOf(h)}
}

// isRepeatedAck tells whether a consumer says again what has been done: that it is done with the task.
func (s *state) isRepeatedAck(h handle, op *fsmpb.Settle) bool {
	r := s.tasks.Read(h)
	if !op.Consumer || op.Verdict != fsmpb.Verdict_VERDICT_DELIVERED || !r.is(fsmpb.State_STATE_DELIVERED) {
		return false
	}
	c := readCold(s.blobs.Get(r.cold))
	return c.occurrence == op.Occurrence && s.progress.Read(r.progress).fence == op.Fence
}

// isReplaced reports whether a consumer settles a lease of an earlier occurrence of the task.
func (s *state) isReplaced(h handle, op *fsmpb.Settle) bool {
	c := readCold(s.blobs.Get(s.tasks.Read(h).cold))
	return op.Consumer && 0 < op.Occurrence && op.Occurrence < op.Fence && op.Fence < c.occurrence
}

func (s *state) accepts(h handle, op *fsmpb.Settle) bool {
	if op.Consumer {
		return s.isLeasedUnder(h, op.Fence, op.Occurrence)
	}
	r := s.tasks.Read(h)
	c := readCold(s.blobs.Get(r.cold))
	if r.progress == 0 || c.occurrence != op.Occurrence {
		return false
	}
	p := s.progress.Read(r.progress)
	if op.Verdict == fsmpb.Verdict_VERDICT_DELIVERED {
		return op.Fence != 0 && op.Fence <= p.fence && !r.is(fsmpb.State_STATE_DELIVERED)
	}
	return op.Fence == p.fence && r.is(fsmpb.State_STATE_FIRING)
}

func (m *Machine) settleEnded(h handle, op *fsmpb.Settle) {
	p := m.progressOf(h)
	e := ended{fence: op.Fence, start: op.StartedAtMs, node: op.Node, err: op.Error}
	delivered := op.Verdict == fsmpb.Verdict_VERDICT_DELIVERED
	if delivered {
		e.err = ""
	}
	m.endAttempt(p, e)
	switch {
	case delivered:
		m.entomb(h, fsmpb.State_STATE_DELIVERED, op.KeepUntilMs)
	case p.outcome != 0:
		m.entomb(h, fsmpb.State_STATE_CANCELLED, op.KeepUntilMs)
	case op.Verdict == fsmpb.Verdict_VERDICT_RETRY:
		m.leaveList(h)
		m.setState(h, fsmpb.State_STATE_RETRYING)
		m.waitUntil(h, op.RetryAtMs)
	default:
		m.bury(h)
	}
}

// release takes back an attempt that was never started: uncounted, and before all others of its lane.
func (m *Machine) release(h handle, op *fsmpb.Settle) {
	p := m.progressOf(h)
	p.attempts--
	if p.outcome != 0 {
		m.entomb(h, fsmpb.State_STATE_CANCELLED, op.KeepUntilMs)
		return
	}
	l := m.lanes.lanes[p.lane]
	m.stopWaiting(h)
	l.firing.remove(m.links(), h)
	m.setState(h, fsmpb.State_STATE_READY)
	l.ready.pushFront(m.links(), h, int64(m.number))
	m.lanes.touch(l)
	if expiry := m.expiryOf(h); expiry != 0 {
		m.waitUntil(h, expiry+m.horizon)
	}
}
