package fsm

import (
	"cmp"
	"slices"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
)

// grantReady gives a lane's first ready tasks their grants. How many there may be is the leader's to know, and so
// neither a window nor a hold of the queue counts here.
func (m *Machine) grantReady(op *fsmpb.Grant) *fsmpb.Result {
	m.bind(op.Policy)
	l, t := m.lanes.find(laneKey(op.Lane)), taker{op.LeaseMs, op.Tag, op.Holder}
	if l != nil && t.mayTakeFrom(l) {
		for range min(int(op.Max), l.ready.len) {
			m.grantFirst(l, op.Policy, t)
		}
	}
	return &fsmpb.Result{Code: fsmpb.Code_CODE_OK}
}

func (m *Machine) grantFirst(l *lane, policy *fsmpb.Policy, t taker) {
	h := l.ready.head
	m.number++
	m.lift(h)
	if expiry := m.expiryOf(h); expiry != 0 && m.now >= expiry {
		m.expire(h)
	} else {
		l.ready.remove(m.links(), h)
		m.startAttempt(h, l, m.readyFrom(h), policy, t)
	}
	m.land(h)
}

// readyFrom is the instant from which a ready task may be attempted. The wheel is ahead of the clock, so that one that
// has come due may have to wait a little more: a first attempt for the task's own instant, which startAttempt sees to,
// and a retry for one that is not kept, but that the wheel has reached.
func (m *Machine) readyFrom(h handle) int64 {
	if m.progressOf(h).attempts > 0 {
		return min(m.wheel.Position(), m.now+m.horizon)
	}
	return 0
}

func laneKey(l *fsmpb.Lane) task.Lane {
	key := task.Lane{
		Namespace: task.CanonicalNamespace(l.GetNamespace()), Queue: l.GetQueue(), Destination: l.GetDestination(),
	}
	if key.Queue == "" {
		key.Queue = task.DefaultQueue
	}
	return key
}

// takeover renews the pushed grants of the leadership before, in the order in which they were given. Consumers'
// leases stay as they are: the consumers are still at work; what became of those that never arrived, see Given.
func (m *Machine) takeover(op *fsmpb.Takeover) *fsmpb.Result {
	m.bind(op.Policy)
	if m.origin == 0 {
		m.origin = op.Origin
	}
	for _, h := range m.pushedGrants() {
		m.number++
		m.lift(h)
		m.lease(h, m.lanes.lanes[m.progressOf(h).lane], 0, op.Policy, taker{})
		m.land(h)
	}
	return &fsmpb.Result{Code: fsmpb.Code_CODE_OK}
}

// pushedGrants returns the tasks with an attempt under way that no consumer has, in the order in which the attempts
// began. The order of the lanes themselves differs between replicas.
func (s *state) pushedGrants() []handle {
	var firing []handle
	for _, l := range s.lanes.lanes {
		if l == nil {
			continue
		}
		for h := l.firing.head; h != 0; h = s.links().read(h).next {
			if !s.links().read(h).leased {
				firing = append(firing, h)
			}
		}
	}
	slices.SortFunc(firing, func(a, b handle) int {
		return cmp.Compare(s.links().read(a).order, s.links().read(b).order)
	})
	return firing
}
