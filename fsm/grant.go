package fsm

import (
	"cmp"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/internal/store"
	"github.com/belfryhq/belfry/fsm/task"
)

// applyGrant gives a lane's first ready tasks their grants. It checks neither a window nor a hold of the queue: only
// the leader knows how many grants there may be.
func (m *Machine) applyGrant(r request) *fsmpb.Result {
	op := r.GetGrant()
	m.bind(op.Policy)
	l, t := m.store.Lane(laneOf(op.Lane)), taker{op.LeaseMs, op.Tag, op.Holder, true}
	if l != nil && t.mayTakeFrom(l) {
		m.grantReady(l, op, t)
	}
	return done()
}

// maxMoved is the largest number of tasks that one Grant moves to the lanes of isolated paths.
const maxMoved = 1024

// grantReady grants the first ready tasks of a lane. A task of an isolated path moves to the lane of its path instead.
// In a group's lane, the grants end there: the group's next task must not overtake the moved one.
func (m *Machine) grantReady(l *store.Lane, op *fsmpb.Grant, t taker) {
	for granted, moved := 0, 0; granted < int(op.Max) && moved < maxMoved && l.Ready() > 0; {
		m.store.Number++
		first := m.store.FirstReady(l, op.InOrder, m.choice(l, op, granted+moved))
		if m.store.IsIsolated(first) {
			m.store.Change(first, func(e store.Edit) {
				e.LeaveList()
				e.Wait(e.OpenLane())
			})
			if moved++; l.Group != "" {
				return
			}
			continue
		}
		granted++
		m.grantOne(first, l, op, t)
	}
}

// choice returns the kind of task that the n-th grant of a command prefers. A receiver gets tasks without an ended
// attempt first, and one of the others with every fourth grant, so that new tasks do not keep them waiting for ever.
func (m *Machine) choice(l *store.Lane, op *fsmpb.Grant, n int) store.Choice {
	switch {
	case l.Pulled():
		return store.Oldest
	case op.Turn > 0:
		return []store.Choice{store.OldestFresh, store.NewestFresh, store.OldestRetried}[(int(op.Turn)+n)%3]
	case m.store.Number%4 == 0:
		return store.OldestRetried
	}
	return store.OldestFresh
}

func (m *Machine) grantOne(first store.Task, l *store.Lane, op *fsmpb.Grant, t taker) {
	m.store.Change(first, func(e store.Edit) {
		if expiry := expiryOf(e.Task); expiry != 0 && m.store.NowMs >= expiry {
			expire(e)
			return
		}
		e.LeaveList()
		m.startAttempt(e, l, m.readyFrom(e.Task), op.Policy, t)
	})
}

// applyIsolate begins or ends the isolation of a path. A queue's own target and a broker have one path only.
func (m *Machine) applyIsolate(r request) *fsmpb.Result {
	op := r.GetIsolate()
	if name := laneOf(op.Lane).Receiver(); op.End {
		m.store.EndIsolation(name)
	} else {
		m.store.Isolate(name)
	}
	return done()
}

// readyFrom returns the instant from which a ready task may be attempted. The wheel is ahead of the clock, so a task
// that has come due may have to wait a little more. A first attempt waits for the task's own instant, which grant sees
// to. A retry waits for an instant that is not kept, but that the wheel has reached.
func (m *Machine) readyFrom(t store.Task) int64 {
	if t.Attempts() > 0 {
		return min(m.store.Position(), m.store.NowMs+m.store.HorizonMs)
	}
	return 0
}

// applyTakeover renews the pushed grants of the previous leadership, in the order in which they were given. Consumers'
// leases stay as they are, because the consumers are still at work. LiveLeases finds leases that never arrived.
func (m *Machine) applyTakeover(r request) *fsmpb.Result {
	op := r.GetTakeover()
	m.bind(op.Policy)
	m.store.Origin = cmp.Or(m.store.Origin, op.Origin)
	for _, t := range m.store.PushedGrants() {
		m.store.Number++
		m.store.Change(t, func(e store.Edit) { m.grant(e, e.Lane(), 0, op.Policy, taker{}) })
	}
	return done()
}

// bind stores the settings that stay in force until the next command with a policy.
func (m *Machine) bind(policy *fsmpb.Policy) {
	if policy == nil {
		return
	}
	m.store.Defaults = store.Defaults{
		TombstoneBound: policy.TombstoneBytes,
		HorizonMs:      policy.HorizonMs,
		KeepDoneMs:     cmp.Or(policy.KeepDoneMs, task.DefaultKeepDone.Milliseconds()),
	}
}
