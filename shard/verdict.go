package shard

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
)

// maxRetryAfter is how far a receiver may put off the next attempt.
const maxRetryAfter = 24 * time.Hour

// plan holds the terms of a task's attempts: its own, else its queue's, else the defaults.
type plan struct {
	timeout                time.Duration // of the whole attempt
	maxAttempts            uint32
	minBackoff, maxBackoff time.Duration
	delaysMs               []int64 // in place of a backoff; nil: there are none
}

// planOf puts a task's plan together.
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

// backoff returns the wait after the n-th failed attempt, n at least 1. A listed delay is exact, with no jitter.
func (r plan) backoff(n uint32) time.Duration {
	if listed := len(r.delaysMs); listed > 0 {
		return time.Duration(r.delaysMs[min(max(int(n), 1), listed)-1]) * time.Millisecond
	}
	return backoff(n, r.minBackoff, r.maxBackoff, rand.Float64())
}

// verdict decides what an attempt's outcome means for its task. Fence and occurrence are filled in by newSettle.
func (p Policy) verdict(t *fsmpb.Task, r plan, out task.Outcome, now time.Time) *fsmpb.Settle {
	s := &fsmpb.Settle{Error: cutError(out.Error)}
	switch {
	case out.Delivered:
		s.Verdict, s.Error = fsmpb.Verdict_VERDICT_DELIVERED, ""
	case out.Permanent || t.Attempts >= r.maxAttempts:
		s.Verdict = fsmpb.Verdict_VERDICT_DEAD
	default:
		s.Verdict = fsmpb.Verdict_VERDICT_RETRY
		wait := max(r.backoff(t.Attempts), min(out.RetryAfter, maxRetryAfter))
		s.RetryAtMs = notBefore(now.Add(wait))
	}
	return s
}

// notBefore is the first whole Unix millisecond that is no earlier.
func notBefore(at time.Time) int64 { return at.Add(time.Millisecond - 1).UnixMilli() }

// backoff grows exponentially and is spread over half of its range ("equal jitter", M. Brooker, "Exponential Backoff
// And Jitter", AWS 2015): after n failures evenly from least*2^(n-1) to twice that, never under least and never over
// most. spread is in [0, 1).
func backoff(n uint32, least, most time.Duration, spread float64) time.Duration {
	most = max(least, most)
	top := most
	if shift := min(n, 40); least <= most>>shift {
		top = least << shift
	}
	bottom := max(top/2, least)
	return bottom + time.Duration(spread*float64(top-bottom))
}

// stopped settles a grant whose attempt may not begin because the task was cancelled: the machine ends it as cancelled.
// If something else has superseded the grant, the settle is stale and changes nothing.
func stopped(now time.Time) *fsmpb.Settle {
	return &fsmpb.Settle{
		Verdict: fsmpb.Verdict_VERDICT_RETRY, RetryAtMs: now.UnixMilli(),
		Error: "stopped before it began",
	}
}

// released gives a grant back whose attempt did not begin; it does not count. A task that was cancelled meanwhile ends
// with it.
func released() *fsmpb.Settle { return &fsmpb.Settle{Verdict: fsmpb.Verdict_VERDICT_RELEASED} }

func verdictName(v fsmpb.Verdict) string {
	return strings.ToLower(strings.TrimPrefix(v.String(), "VERDICT_"))
}

// cutError makes a text fit for the log: valid, and no longer than is kept.
func cutError(text string) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	if len(text) <= task.MaxErrorBytes {
		return text
	}
	return strings.ToValidUTF8(text[:task.MaxErrorBytes], "")
}

// allowance is added to ends that must not come early. When an end comes, the wheel may be further ahead of the clock
// than it is now, and the entry's instant, from which the end counts, was cut to a millisecond.
const allowance = maxHorizon + time.Millisecond

// policy is the policy as commands carry it.
func (s *Shard) policy() *fsmpb.Policy {
	p := s.cfg.Policy
	return &fsmpb.Policy{
		Window:           p.Window,
		AttemptTimeoutMs: p.Timeout.Milliseconds(),
		LeaseMarginMs:    (p.LeaseMargin + allowance).Milliseconds(),
		MaxAttempts:      p.MaxAttempts,
		KeepDoneMs:       (p.KeepDone + allowance).Milliseconds(),
		TombstoneBytes:   s.tombstoneBound(),
		HorizonMs:        allowance.Milliseconds(),
	}
}

// droppedAtOnce bounds the tombstones that one entry drops, in bytes: a thousand of them, about a millisecond.
const droppedAtOnce = 256 << 10

// tombstoneBound is what all tombstones may take. A leader that allows far less than the one before it comes down to
// that step by step: a million dropped by one command would keep all else waiting for a second. Replicas drop all that
// is over the bound in their log, so the leader has to be slow.
func (s *Shard) tombstoneBound() int64 {
	bound := s.cfg.Policy.TombstoneBytes
	if bound == 0 {
		return 0
	}
	return max(bound, s.machine.TombstoneBytes()-droppedAtOnce)
}

// unstartable says why a grant is not begun, or nil.
func (r plan) unstartable(leaseEnd, now time.Time) error {
	if left, need := leaseEnd.Sub(now), r.timeout; left < need {
		return fmt.Errorf("only %v of the lease are left for an attempt of up to %v", left, need)
	}
	return nil
}
