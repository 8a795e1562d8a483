package shard

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
)

// maxRetryAfter is the longest delay that a receiver may ask for before the next attempt.
const maxRetryAfter = 24 * time.Hour

// plan holds the terms of a task's attempts: the task's own, else its queue's, else the defaults.
type plan struct {
	timeout                time.Duration // of the whole attempt
	maxAttempts            uint32
	minBackoff, maxBackoff time.Duration
	delaysMs               []int64 // delays used in place of the backoff; nil: none
}

// planOf returns the plan of a task in the given queue.
func (p Policy) planOf(t *fsmpb.Task, queue *fsmpb.QueuePolicy) plan {
	spec := t.GetSpec()
	terms := task.TermsOf(spec.GetTarget(), spec.GetRetry()).
		Or(task.TermsOf(queue.GetTarget(), queue.GetRetry())).
		Or(task.Terms{
			TimeoutMs: p.Timeout.Milliseconds(), MaxAttempts: p.MaxAttempts,
			MinBackoffMs: p.MinBackoff.Milliseconds(), MaxBackoffMs: p.MaxBackoff.Milliseconds(),
		})
	return plan{
		timeout:     time.Duration(terms.TimeoutMs) * time.Millisecond,
		maxAttempts: terms.MaxAttempts,
		minBackoff:  time.Duration(terms.MinBackoffMs) * time.Millisecond,
		maxBackoff:  time.Duration(terms.MaxBackoffMs) * time.Millisecond,
		delaysMs:    terms.DelaysMs,
	}
}

// backoff returns the wait after the n-th failed attempt, for n of at least 1. A listed delay is exact, without jitter.
func (r plan) backoff(n uint32) time.Duration {
	if listed := len(r.delaysMs); listed > 0 {
		return time.Duration(r.delaysMs[min(max(int(n), 1), listed)-1]) * time.Millisecond
	}
	return backoff(n, r.minBackoff, r.maxBackoff, rand.Float64())
}

// verdict returns the settle for an attempt's outcome. newSettle fills in the fence and the occurrence. The failure of
// a probe does not count, because the receiver fails for all of its tasks.
func (p Policy) verdict(t *fsmpb.Task, r plan, out task.Outcome, probe bool, now time.Time) *fsmpb.Settle {
	s := &fsmpb.Settle{Error: cutError(out.Error)}
	switch {
	case out.Delivered:
		s.Verdict, s.Error = fsmpb.Verdict_VERDICT_DELIVERED, ""
	case probe && !out.Permanent && !out.Refused:
		s.Verdict, s.RetryAtMs = fsmpb.Verdict_VERDICT_PROBED, r.retryAt(t, out, now)
	case out.Permanent || t.Attempts >= r.maxAttempts:
		s.Verdict = fsmpb.Verdict_VERDICT_DEAD
	default:
		s.Verdict, s.RetryAtMs = fsmpb.Verdict_VERDICT_RETRY, r.retryAt(t, out, now)
	}
	return s
}

// retryAt returns the instant of the attempt that follows a failure, in Unix milliseconds.
func (r plan) retryAt(t *fsmpb.Task, out task.Outcome, now time.Time) int64 {
	return notBefore(now.Add(max(r.backoff(t.Attempts), min(out.RetryAfter, maxRetryAfter))))
}

// notBefore returns at in Unix milliseconds, rounded up.
func notBefore(at time.Time) int64 { return at.Add(time.Millisecond - 1).UnixMilli() }

// backoff returns an exponentially growing wait with "equal jitter" (M. Brooker, "Exponential Backoff And Jitter", AWS
// 2015). After n failures it lies evenly between least*2^(n-1) and twice that, never under least and never over most.
// spread is in [0, 1).
func backoff(n uint32, least, most time.Duration, spread float64) time.Duration {
	most = max(least, most)
	top := most
	if shift := min(n, 40); least <= most>>shift {
		top = least << shift
	}
	bottom := max(top/2, least)
	return bottom + time.Duration(spread*float64(top-bottom))
}

// stopped returns the settle of a grant whose attempt may not start because the task was cancelled. The machine then
// ends the task as cancelled. If the grant was superseded otherwise, the settle is stale and changes nothing.
func stopped(now time.Time) *fsmpb.Settle {
	return &fsmpb.Settle{
		Verdict: fsmpb.Verdict_VERDICT_RETRY, RetryAtMs: now.UnixMilli(),
		Error: "stopped before it began",
	}
}

// released returns the settle that gives a grant back whose attempt did not start. The attempt does not count. A task
// cancelled meanwhile ends with this settle.
func released() *fsmpb.Settle { return &fsmpb.Settle{Verdict: fsmpb.Verdict_VERDICT_RELEASED} }

func verdictName(v fsmpb.Verdict) string {
	return strings.ToLower(strings.TrimPrefix(v.String(), "VERDICT_"))
}

// cutError returns text as valid UTF-8 of at most task.MaxErrorBytes, for the log.
func cutError(text string) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	if len(text) <= task.MaxErrorBytes {
		return text
	}
	return strings.ToValidUTF8(text[:task.MaxErrorBytes], "")
}

// allowance is added to ends that must not come early. At the end, the wheel may run further ahead of the clock than
// now. The entry's instant, from which the end counts, was also cut to a millisecond.
const allowance = maxHorizon + time.Millisecond

// command returns the policy in the form that commands carry. tombstones are the bytes of the shard's tombstones.
func (p Policy) command(tombstones int64) *fsmpb.Policy {
	return &fsmpb.Policy{
		Window:           p.Window,
		AttemptTimeoutMs: p.Timeout.Milliseconds(),
		LeaseMarginMs:    (p.LeaseMargin + allowance).Milliseconds(),
		MaxAttempts:      p.MaxAttempts,
		KeepDoneMs:       (p.KeepDone + allowance).Milliseconds(),
		TombstoneBytes:   p.tombstoneBound(tombstones),
		HorizonMs:        allowance.Milliseconds(),
	}
}

// droppedAtOnce limits the bytes of tombstones that one entry drops: about a thousand tombstones, about a millisecond.
const droppedAtOnce = 256 << 10

// tombstoneBound returns the limit on the bytes of all tombstones, 0 for none. bytes are their present bytes. A leader
// whose limit is far below the previous leader's lowers it step by step: a command that drops a million tombstones
// would block all others for a second. Replicas drop everything above the limit in their log, so the leader has to be
// slow.
func (p Policy) tombstoneBound(bytes int64) int64 {
	if p.TombstoneBytes == 0 {
		return 0
	}
	return max(p.TombstoneBytes, bytes-droppedAtOnce)
}

// unstartable returns the reason why an attempt must not start, or nil.
func (r plan) unstartable(leaseEnd, now time.Time) error {
	if left, need := leaseEnd.Sub(now), r.timeout; left < need {
		return fmt.Errorf("only %v of the lease are left for an attempt of up to %v", left, need)
	}
	return nil
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
	plan := s.cfg.Policy.planOf(leased, s.cfg.Policies.Policy(leased.Namespace, leased.Spec.Queue))
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
