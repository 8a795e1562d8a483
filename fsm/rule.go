package fsm

import (
	"cmp"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
)

// RuleOf returns the part of a queue's policy that applying commands needs.
func RuleOf(p *fsmpb.QueuePolicy) *fsmpb.QueueRule {
	return &fsmpb.QueueRule{
		Namespace:        task.CanonicalNamespace(p.GetNamespace()),
		Queue:            cmp.Or(p.GetQueue(), task.DefaultQueue),
		Pushed:           p.GetTarget() != nil,
		Held:             p.GetPaused() || p.GetMaxInFlight() > 0 || p.GetMaxPerSecond() > 0,
		AttemptTimeoutMs: p.GetTarget().GetTimeoutMs(),
		MaxAttempts:      task.AttemptsOf(p.GetRetry()),
		KeepDoneMs:       p.GetKeepDoneMs(),
		KeepDeadMs:       p.GetKeepDeadMs(),
		OnDelivered:      p.GetOnDelivered(),
		OnDead:           p.GetOnDead(),
	}
}

// applySetRules stores the rules of the queues that they name. It moves no task: a task waits where its queue and
// destination put it, and a begun attempt ends as it began.
func (a *applier) applySetRules(r request) *fsmpb.Result {
	for _, rule := range r.GetSetRules().Rules {
		a.store.SetRule(rule)
	}
	return done()
}
