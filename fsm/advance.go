package fsm

import "github.com/belfryhq/belfry/fsm/fsmpb"

// advance moves the wheel and sees to everything that came due, in order.
func (m *Machine) advance(op *fsmpb.Advance) *fsmpb.Result {
	m.bind(op.Policy)
	fired, more := m.wheel.Advance(op.ToMs, int(op.Max), m.fired[:0])
	m.fired = fired
	credits := credits{window: int(op.Policy.GetWindow()), named: op.Credits}
	for _, h := range fired {
		m.comeDue(h, op.Policy, &credits)
	}
	m.trimTombstones()
	return &fsmpb.Result{Code: fsmpb.Code_CODE_OK, More: more}
}

// comeDue does what a task waited in the wheel for.
func (m *Machine) comeDue(h handle, policy *fsmpb.Policy, credits *credits) {
	m.number++
	m.lift(h)
	r := m.tasks.Write(h)
	r.waits = false
	switch fsmpb.State(r.state) {
	case fsmpb.State_STATE_SCHEDULED, fsmpb.State_STATE_RETRYING:
		m.becomeReady(h, r.Due(), policy, credits)
	case fsmpb.State_STATE_READY:
		m.bury(h, expired)
	case fsmpb.State_STATE_FIRING:
		m.endLease(h, policy, credits)
	default: // a tombstone whose time is over
		m.forget(h)
		return
	}
	m.land(h)
}

// becomeReady grants a due task at once if its lane has credit and nobody waits there, and else lets it wait.
// due is the instant before which the attempt may not start.
func (m *Machine) becomeReady(h handle, due int64, policy *fsmpb.Policy, credits *credits) {
	m.progressOf(h)
	expiry := m.expiryOf(h)
	if expiry != 0 && m.now >= expiry {
		m.bury(h, expired)
		return
	}
	l := m.openLane(m.tasks.Read(h))
	if l.ready.len == 0 && credits.take(l) {
		m.startAttempt(h, l, due, policy)
		return
	}
	m.setState(h, fsmpb.State_STATE_READY)
	m.waitReady(h, l)
	if expiry != 0 {
		m.waitUntil(h, expiry+m.horizon)
	}
}

// startAttempt begins a task's next attempt.
func (m *Machine) startAttempt(h handle, l *lane, due int64, policy *fsmpb.Policy) {
	m.setState(h, fsmpb.State_STATE_FIRING)
	p := m.progressOf(h)
	p.attempts++
	p.lane = l.number
	m.lanes.touch(l)
	l.firing.pushBack(m.links(), h, int64(m.number))
	m.lease(h, l, due, policy)
}

// lease gives a firing task the current number as its fence, and its lease end, and tells the leader. The wheel is
// ahead of the clock: also a grant renewed or given late may be of a task that is not due yet.
func (m *Machine) lease(h handle, l *lane, due int64, policy *fsmpb.Policy) {
	r := m.tasks.Read(h)
	p := m.progressOf(h)
	p.fence, p.revision = m.number, m.number
	start := max(due, p.fireAt)
	c := readCold(m.blobs.Get(r.cold))
	timeout := m.targetOf(&c, m.extraOf(&c)).spec.GetTimeoutMs()
	if timeout == 0 {
		timeout = policy.GetAttemptTimeoutMs()
	}
	m.waitUntil(h, max(start, m.now)+timeout+policy.GetLeaseMarginMs())
	if m.full {
		namespace, id := m.idOf(r)
		m.grants = append(m.grants, Grant{namespace, id, m.number, c.occurrence, start, l.Lane, 0})
	}
}

// endLease treats an attempt that did not settle in time as a failed one, to be retried at once.
func (m *Machine) endLease(h handle, policy *fsmpb.Policy, credits *credits) {
	const leaseEnded = "the lease ended before the attempt was settled"
	p := m.progressOf(h)
	switch {
	case p.outcome != 0:
		m.entomb(h, fsmpb.State_STATE_CANCELLED, policy.GetKeepUntilMs())
	case p.attempts >= m.maxAttempts(h, policy):
		m.bury(h, leaseEnded)
	default:
		m.leaveList(h)
		m.setLastError(p, leaseEnded)
		m.becomeReady(h, m.now, policy, credits)
	}
}

func (s *state) maxAttempts(h handle, policy *fsmpb.Policy) uint32 {
	c := readCold(s.blobs.Get(s.tasks.Read(h).cold))
	if n := s.extraOf(&c).Retry.GetMaxAttempts(); n > 0 {
		return n
	}
	return policy.GetMaxAttempts()
}

const expired = "expired"

// expiryOf returns the instant by which the first attempt of a due task must have begun; 0: there is none, or it has.
func (s *state) expiryOf(h handle) int64 {
	r := s.tasks.Read(h)
	p := s.progress.Read(r.progress)
	c := readCold(s.blobs.Get(r.cold))
	after := s.extraOf(&c).ExpiresAfterMs
	if after == 0 || p.attempts > 0 {
		return 0
	}
	return p.fireAt + after
}

// credits is what an advance may grant: up to window attempts in flight in a webhook lane, or what the leader said of
// lanes by name. A pull lane without a word has none.
type credits struct {
	window int
	named  []*fsmpb.LaneCredit
}

func (c *credits) take(l *lane) bool {
	for _, credit := range c.named {
		if laneKey(credit.Lane) != l.Lane {
			continue
		}
		if credit.Grants == 0 {
			return false
		}
		credit.Grants--
		return true
	}
	return !l.pulled() && l.firing.len < c.window
}
