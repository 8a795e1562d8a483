package fsm

import (
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
)

// startAttempt begins a task's next attempt.
func (m *Machine) startAttempt(h handle, l *lane, due int64, policy *fsmpb.Policy, t taker) {
	m.setState(h, fsmpb.State_STATE_FIRING)
	p := m.progressOf(h)
	p.attempts++
	p.lane = l.number
	p.leased = t.leaseMs > 0
	m.lanes.touch(l)
	l.firing.pushBack(m.links(), h, int64(m.number))
	m.lease(h, l, due, policy, t)
}

// lease gives a firing task the current number as its fence, and its lease end, and tells the leader. The wheel is
// ahead of the clock: also a grant renewed or given late may be of a task that is not due yet.
func (m *Machine) lease(h handle, l *lane, due int64, policy *fsmpb.Policy, t taker) {
	p := m.progressOf(h)
	p.fence, p.revision = m.number, m.number
	start := max(due, p.fireAt)
	r := m.tasks.Read(h)
	c := readCold(m.blobs.Get(r.cold))
	length := t.leaseMs + m.horizon
	if p.leased {
		m.given.note(given{fence: m.number, task: h, holder: t.holder})
	} else {
		length = m.timeoutOf(&c, l.queue, policy) + policy.GetLeaseMarginMs()
	}
	m.waitUntil(h, max(start, m.now)+length)
	if m.full {
		namespace, id := m.idOf(r)
		m.grants = append(m.grants, task.Grant{
			Namespace: namespace, ID: id, Fence: m.number, Occurrence: c.occurrence, StartMs: start, Lane: l.Lane, Tag: t.tag,
		})
	}
}

// timeoutOf returns how long a pushed attempt may take, in milliseconds.
func (s *state) timeoutOf(c *cold, q *queue, policy *fsmpb.Policy) int64 {
	if ms := s.targetOf(c, s.extraOf(c)).GetTimeoutMs(); ms > 0 {
		return ms
	}
	if ms := q.rule.AttemptTimeoutMs; ms > 0 {
		return ms
	}
	return policy.GetAttemptTimeoutMs()
}

// endLease treats an attempt that did not settle in time as a failed one, to be retried at once.
func (m *Machine) endLease(h handle, credits *credits) {
	const leaseEnded = "the lease ended before the attempt was settled"
	p := m.progressOf(h)
	m.endAttempt(p, ended{fence: p.fence, err: leaseEnded})
	switch {
	case p.outcome != 0:
		m.entomb(h, fsmpb.State_STATE_CANCELLED, credits.policy.GetKeepUntilMs())
	case p.attempts >= m.maxAttempts(h, credits.policy):
		m.bury(h)
	default:
		m.leaveList(h)
		m.becomeReady(h, m.now, credits)
	}
}

func (s *state) maxAttempts(h handle, policy *fsmpb.Policy) uint32 {
	r := s.tasks.Read(h)
	c := readCold(s.blobs.Get(r.cold))
	if n := task.AttemptsOf(s.extraOf(&c).Retry); n > 0 {
		return n
	}
	if n := s.queueOf(r).rule.MaxAttempts; n > 0 {
		return n
	}
	return policy.GetMaxAttempts()
}
