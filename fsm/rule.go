package fsm

import (
	"cmp"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
)

// RuleOf returns the part of a policy that applying commands must know.
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
	}
}

// applySetRules makes the rules those of their queues. It moves no task: a task waits where its queue and destination
// say, and a begun attempt ends as it began.
func (m *Machine) applySetRules(r request) *fsmpb.Result {
	for _, rule := range r.GetSetRules().Rules {
		m.store.SetRule(rule)
	}
	return done()
}
