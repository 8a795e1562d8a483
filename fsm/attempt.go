package fsm

import (
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/internal/store"
	"github.com/belfryhq/belfry/fsm/task"
)

// startAttempt begins the next attempt of a task that is in no list.
func (a *applier) startAttempt(e store.Edit, l *store.Lane, due int64, policy *fsmpb.Policy, t taker) {
	e.SetState(fsmpb.State_STATE_FIRING)
	e.SetAttempts(e.Attempts() + 1)
	e.Fire(l)
	a.grant(e, l, due, policy, t)
}

// grant makes the current number the fence of a firing task, sets the end of its lease, and reports the grant to the
// leader. The wheel runs ahead of the clock, so even a renewed or late grant may be for a task that is not due yet.
func (a *applier) grant(e store.Edit, l *store.Lane, due int64, policy *fsmpb.Policy, t taker) {
	start := max(due, e.FireAtMs())
	e.Grant(start)
	length := t.leaseMs + a.store.HorizonMs
	if t.leaseMs > 0 {
		e.Lease(t.holder)
	} else {
		length = termsOf(e.Task, l.Rule(), policy).TimeoutMs + policy.GetLeaseMarginMs()
	}
	e.WaitUntil(max(start, a.store.NowMs) + length)
	if a.full {
		namespace, id := e.ID()
		a.grants = append(a.grants, task.Grant{
			Namespace: namespace, ID: id, Fence: a.store.Number, Occurrence: e.Occurrence(), StartMs: start, Lane: l.Lane,
			Tag: t.tag, Waited: t.ready,
		})
	}
}

// termsOf returns the terms of a task's attempts. The task's own come first, then its queue's, then the policy's.
func termsOf(t store.Task, rule *fsmpb.QueueRule, policy *fsmpb.Policy) task.Terms {
	return t.Terms().
		Or(task.Terms{TimeoutMs: rule.AttemptTimeoutMs, MaxAttempts: rule.MaxAttempts}).
		Or(task.Terms{TimeoutMs: policy.GetAttemptTimeoutMs(), MaxAttempts: policy.GetMaxAttempts()})
}

// endLease treats an attempt that did not settle in time as a failed attempt, to be retried at once.
func (a *applier) endLease(e store.Edit, credits *credits) {
	e.EndAttempt(store.Ended{Fence: e.Fence(), Error: "the lease ended before the attempt was settled"})
	switch {
	case e.Outcome() != 0:
		e.Entomb(fsmpb.State_STATE_CANCELLED)
	case e.Attempts() >= termsOf(e.Task, e.Rule(), credits.policy).MaxAttempts:
		e.Bury()
	default:
		e.LeaveList()
		a.becomeReady(e, a.store.NowMs, credits)
	}
}
