package fsm

import (
	"cmp"
	"slices"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/internal/store"
	"github.com/belfryhq/belfry/fsm/task"
)

// applyGrant gives a lane's first ready tasks their grants. It checks neither a window nor a hold of the queue: only
// the leader knows how many grants there may be.
func (a *applier) applyGrant(r request) *fsmpb.Result {
	op := r.GetGrant()
	a.bind(op.Policy)
	l, t := a.store.Lanes.Find(laneOf(op.Lane)), taker{op.LeaseMs, op.Tag, op.Holder, true}
	if l != nil && t.mayTakeFrom(l) {
		if a.full {
			a.grants = slices.Grow(a.grants, min(int(op.Max), l.Ready()))
		}
		a.grantReady(l, op, t)
	}
	return done()
}

// maxMoved is the largest number of tasks that one Grant moves to the lanes of isolated paths.
const maxMoved = 1024

// grantReady grants the first ready tasks of a lane. A task of an isolated path moves to the lane of its path instead.
// In a group's lane, the grants end there: the group's next task must not overtake the moved one.
func (a *applier) grantReady(l *store.Lane, op *fsmpb.Grant, t taker) {
	for granted, moved := 0, 0; granted < int(op.Max) && moved < maxMoved && l.Ready() > 0; {
		a.store.Number++
		first := a.store.Lanes.FirstReady(l, op.InOrder, a.choice(l, op, granted+moved))
		if a.store.Lanes.IsIsolated(first) {
			a.store.Change(first, func(e store.Edit) {
				e.LeaveList()
				e.Wait(e.OpenLane())
			})
			if moved++; l.Group != "" {
				return
			}
			continue
		}
		granted++
		a.grantOne(first, l, op, t)
	}
}

// choice returns the kind of task that the n-th grant of a command prefers. A receiver gets tasks without an ended
// attempt first, and one of the others with every fourth grant, so that new tasks do not keep them waiting for ever.
func (a *applier) choice(l *store.Lane, op *fsmpb.Grant, n int) store.Choice {
	switch {
	case l.Pulled():
		return store.Oldest
	case op.Turn > 0:
		return []store.Choice{store.OldestFresh, store.NewestFresh, store.OldestRetried}[(int(op.Turn)+n)%3]
	case a.store.Number%4 == 0:
		return store.OldestRetried
	}
	return store.OldestFresh
}

func (a *applier) grantOne(first store.Task, l *store.Lane, op *fsmpb.Grant, t taker) {
	a.store.Change(first, func(e store.Edit) {
		if expiry := expiryOf(e.Task); expiry != 0 && a.store.NowMs >= expiry {
			expire(e)
			return
		}
		e.LeaveList()
		a.startAttempt(e, l, a.readyFrom(e.Task), op.Policy, t)
	})
}

// applyIsolate begins or ends the isolation of a path. A queue's own target and a broker have one path only.
func (a *applier) applyIsolate(r request) *fsmpb.Result {
	op := r.GetIsolate()
	if name := laneOf(op.Lane).Receiver(); op.End {
		a.store.Lanes.EndIsolation(name)
	} else {
		a.store.Lanes.Isolate(name)
	}
	return done()
}

// readyFrom returns the instant from which a ready task may be attempted. The wheel is ahead of the clock, so a task
// that has come due may have to wait a little more. A first attempt waits for the task's own instant, which grant sees
// to. A retry waits for an instant that is not kept, but that the wheel has reached.
func (a *applier) readyFrom(t store.Task) int64 {
	if t.Attempts() > 0 {
		return min(a.store.Position(), a.store.NowMs+a.store.HorizonMs)
	}
	return 0
}

// applyTakeover renews the pushed grants of the previous leadership, in the order in which they were given. Consumers'
// leases stay as they are, because the consumers are still at work. LiveLeases finds leases that never arrived.
func (a *applier) applyTakeover(r request) *fsmpb.Result {
	op := r.GetTakeover()
	a.bind(op.Policy)
	a.store.Origins.Own = cmp.Or(a.store.Origins.Own, op.Origin)
	for _, t := range a.store.Lanes.PushedGrants() {
		a.store.Number++
		a.store.Change(t, func(e store.Edit) { a.grant(e, e.Lane(), 0, op.Policy, taker{}) })
	}
	return done()
}

// bind stores the settings that stay in force until the next command with a policy.
func (a *applier) bind(policy *fsmpb.Policy) {
	if policy == nil {
		return
	}
	a.store.Defaults = store.Defaults{
		TombstoneBound: policy.TombstoneBytes,
		HorizonMs:      policy.HorizonMs,
		KeepDoneMs:     cmp.Or(policy.KeepDoneMs, task.DefaultKeepDone.Milliseconds()),
	}
}
