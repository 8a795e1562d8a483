package fsm

import (
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
)

// advance moves the wheel and sees to everything that came due, in order.
func (m *Machine) advance(op *fsmpb.Advance) *fsmpb.Result {
	m.bind(op.Policy)
	fired, more := m.wheel.Advance(op.ToMs, int(op.Max), m.fired[:0])
	m.fired = fired
	credits := newCredits(op)
	for _, h := range fired {
		m.comeDue(h, credits)
	}
	m.trimTombstones()
	return &fsmpb.Result{Code: fsmpb.Code_CODE_OK, More: more}
}

// comeDue does what a task waited in the wheel for.
func (m *Machine) comeDue(h handle, credits *credits) {
	m.number++
	m.lift(h)
	r := m.tasks.Write(h)
	r.waits = false
	switch fsmpb.State(r.state) {
	case fsmpb.State_STATE_SCHEDULED, fsmpb.State_STATE_RETRYING:
		m.becomeReady(h, r.Due(), credits)
	case fsmpb.State_STATE_READY:
		m.expire(h)
	case fsmpb.State_STATE_FIRING:
		m.endLease(h, credits)
	case fsmpb.State_STATE_DEAD:
		if m.queueOf(r).rule.KeepDeadMs > 0 {
			m.forget(h)
			return
		} // its queue has come to keep dead letters for ever
	default: // a tombstone whose time is over
		m.forget(h)
		return
	}
	m.land(h)
}

// becomeReady grants a due task at once if its lane has credit and nobody waits there, and else lets it wait.
// due is the instant before which the attempt may not start.
func (m *Machine) becomeReady(h handle, due int64, credits *credits) {
	m.progressOf(h)
	expiry := m.expiryOf(h)
	if expiry != 0 && m.now >= expiry {
		m.expire(h)
		return
	}
	l := m.openLane(m.tasks.Read(h))
	if l.ready.len == 0 {
		if taker, ok := credits.take(l); ok {
			m.startAttempt(h, l, due, credits.policy, taker)
			return
		}
	}
	m.setState(h, fsmpb.State_STATE_READY)
	m.waitReady(h, l)
	if expiry != 0 {
		m.waitUntil(h, expiry+m.horizon)
	}
}

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

// taker is who gets a grant: a consumer, or, as the zero taker, the target that the lane pushes to.
type taker struct {
	leaseMs int64
	tag     uint64
	holder  uint32
}

// credits is what an advance may grant.
type credits struct {
	policy *fsmpb.Policy
	named  map[task.Lane][]*fsmpb.LaneCredit // what the leader said of lanes by name
}

func newCredits(op *fsmpb.Advance) *credits {
	c := &credits{policy: op.Policy}
	if len(op.Credits) > 0 {
		c.named = make(map[task.Lane][]*fsmpb.LaneCredit, len(op.Credits))
	}
	for _, credit := range op.Credits {
		key := laneKey(credit.Lane)
		c.named[key] = append(c.named[key], credit)
	}
	return c
}

// take uses up the credit for one grant in a lane, if there is any. A pushed lane that the leader did not name has that
// of the policy's window, unless its queue is held; a pulled one has what consumers asked for.
func (c *credits) take(l *lane) (taker, bool) {
	if l.pulled() {
		return c.takeLease(l)
	}
	for _, credit := range c.named[l.Lane] {
		if credit.LeaseMs == 0 {
			if credit.Grants == 0 {
				return taker{}, false
			}
			credit.Grants--
			return taker{}, true
		}
	}
	return taker{}, !l.queue.rule.Held && l.firing.len < int(c.policy.GetWindow())
}

func (c *credits) takeLease(l *lane) (taker, bool) {
	for _, credit := range c.named[l.Lane] {
		t := taker{credit.LeaseMs, credit.Tag, credit.Holder}
		if t.mayTakeFrom(l) && credit.Grants > 0 {
			credit.Grants--
			return t, true
		}
	}
	return taker{}, false
}

// mayTakeFrom tells whether this taker is of the lane's kind: consumers take from lanes that are pulled, and nobody
// else does.
func (t taker) mayTakeFrom(l *lane) bool {
	if l.pulled() {
		return t.leaseMs > 0 && t.tag != 0
	}
	return t.leaseMs == 0
}
