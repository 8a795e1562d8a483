package fsm

import "github.com/belfryhq/belfry/fsm/fsmpb"

// A task that ended stays readable: its record is the memory of what its calls and cancels answered. A delivered or
// cancelled one stays without its payload until an instant that the leader wrote down, or until tombstones as a whole
// hold more than their bound. A dead one stays whole until somebody replays or drops it, or for as long as its queue's
// rule says: that of when it died, unless none says so any more when the time is over.

// entomb ends a lifted task as delivered or cancelled, to be kept until keepUntil if its queue's rule does not say how
// long.
func (m *Machine) entomb(h handle, as fsmpb.State, keepUntil int64) {
	p := m.progressOf(h)
	m.stopWaiting(h)
	m.leaveList(h)
	m.rewriteCold(h, func(c *cold) { c.payload, c.asBytes = nil, false })
	m.setState(h, as)
	if ms := m.queueOf(m.tasks.Read(h)).rule.KeepDoneMs; ms > 0 {
		keepUntil = m.now + ms
	}
	m.waitUntil(h, roundUpToSecond(keepUntil))
	m.tombstones.pushBack(m.links(), h, int64(m.number))
	p.size = m.footprint(h)
	m.tombstoneBytes += int64(p.size)
}

// bury makes a lifted task a dead letter.
func (m *Machine) bury(h handle) {
	m.stopWaiting(h)
	m.leaveList(h)
	m.setState(h, fsmpb.State_STATE_DEAD)
	if ms := m.queueOf(m.tasks.Read(h)).rule.KeepDeadMs; ms > 0 {
		m.waitUntil(h, roundUpToSecond(m.now+ms))
	}
}

// footprint is about how many bytes a tombstone holds. It must be the same on every replica.
func (s *state) footprint(h handle) uint32 {
	const recordAndProgressAndIndex = 64 + 64 + 13
	r := s.tasks.Read(h)
	c := readCold(s.blobs.Get(r.cold))
	history := s.blob(s.progress.Read(r.progress).history)
	return uint32(recordAndProgressAndIndex + 24 + len(c.id) + saidBytes(s.extraOf(&c)) + len(history))
}

func roundUpToSecond(ms int64) int64 { return (ms + 999) / 1000 * 1000 }

// bind takes what stays in force until the next command that carries a policy.
func (m *Machine) bind(policy *fsmpb.Policy) {
	if policy != nil {
		m.tombstoneBound, m.horizon = policy.TombstoneBytes, policy.HorizonMs
	}
}

// expire makes a lifted task a dead letter that no attempt was begun of in time.
func (m *Machine) expire(h handle) {
	m.setLastError(m.progressOf(h), "expired")
	m.bury(h)
}

// TombstoneBytes is what the bound in a policy is compared with.
func (m *Machine) TombstoneBytes() int64 {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.tombstoneBytes
}

// trimTombstones drops the oldest ones over the bound.
func (m *Machine) trimTombstones() {
	for m.tombstoneBound > 0 && m.tombstoneBytes > m.tombstoneBound && m.tombstones.head != 0 {
		m.drop(m.tombstones.head)
	}
}
