package shard

import (
	"time"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
)

// complete fills in the fields of a caller's command that only the leader decides.
func (s *Shard) complete(cmd *fsmpb.Command, now time.Time) {
	if op := cmd.GetSettle(); op != nil {
		s.completeSettle(cmd, op, now)
	}
}

// completeSettle turns a consumer's verdict into a settle: it sets the time of the next try, or the end of all tries.
func (s *Shard) completeSettle(cmd *fsmpb.Command, op *fsmpb.Settle, now time.Time) {
	op.Consumer, op.Node = true, "" // only settles of pushed attempts name a node
	op.Error = cutError(op.Error)
	if op.Verdict != fsmpb.Verdict_VERDICT_RETRY {
		return
	}
	op.RetryAtMs = now.UnixMilli()
	leased, _, ok := s.machine.Attempt(cmd.Namespace, cmd.Id, op.Fence)
	if !ok {
		return // the machine will find the settle stale
	}
	plan := s.cfg.Policy.planOf(leased, s.policyOf(leased.Namespace, leased.Spec.Queue))
	switch {
	case leased.Attempts >= plan.maxAttempts:
		op.Verdict = fsmpb.Verdict_VERDICT_DEAD
	case op.DelayMs != nil:
		wait := min(max(*op.DelayMs, 0), task.MaxDelay.Milliseconds())
		op.RetryAtMs = notBefore(now) + wait
	default:
		op.RetryAtMs = notBefore(now.Add(plan.backoff(leased.Attempts)))
	}
}
