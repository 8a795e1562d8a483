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
	l, t := m.store.Lane(laneOf(op.Lane)), taker{op.LeaseMs, op.Tag, op.Holder}
	if l != nil && t.mayTakeFrom(l) {
		for range min(int(op.Max), l.Ready()) {
			m.grantFirst(l, op, t)
		}
	}
	return done()
}

func (m *Machine) grantFirst(l *store.Lane, op *fsmpb.Grant, t taker) {
	m.store.Number++
	m.store.Change(m.store.FirstReady(l, op.InOrder), func(e store.Edit) {
		if expiry := expiryOf(e.Task); expiry != 0 && m.store.NowMs >= expiry {
			expire(e)
			return
		}
		e.LeaveList()
		m.startAttempt(e, l, m.readyFrom(e.Task), op.Policy, t)
	})
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
