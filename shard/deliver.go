package shard

import (
	"context"
	"errors"
	"runtime"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/shard/dispatch/throttle"
)

// maxBatchBytes is how much payload goes to a receiver in one request of several tasks.
const maxBatchBytes = 1 << 20

// launch starts the attempts of pushed lanes whose instants have come, in the order of their grants. Those of one lane
// go together if their queue allows it, with the first of them.
func (f *firing) launch(due []task.Grant) {
	requests := f.requestsOf(due)
	inTurns(len(requests), func(i int) { go f.attempt(requests[i]) })
}

// requestsOf parts grants into those that go to a receiver together.
func (f *firing) requestsOf(due []task.Grant) (requests [][]task.Grant) {
	last := map[task.Lane]int{} // the number of the last request of a lane with batches
	for i, g := range due {
		if most := f.batchMax(g); most > 1 {
			if at, ok := last[g.Lane]; ok && len(requests[at]) < most {
				requests[at] = append(requests[at], g)
				continue
			}
			last[g.Lane] = len(requests)
		}
		requests = append(requests, due[i:i+1:i+1])
	}
	return requests
}

func (f *firing) batchMax(g task.Grant) int {
	return max(int(f.shard.policyOf(g.Lane.Namespace, g.Lane.Queue).GetBatchMax()), 1)
}

// begun is an attempt with its grant and plan.
type begun struct {
	task.Attempt
	grant task.Grant
	plan  plan
	// batched: its queue's receivers get batches, also of one task, so that they meet one form only.
	batched bool
}

// attempt runs attempts to their end, also when the leadership ends meanwhile.
func (f *firing) attempt(grants []task.Grant) {
	ready := make([]begun, 0, len(grants))
	for _, g := range grants {
		if b, refused := f.prepare(g); refused != nil {
			f.conclude(g, refused, nil)
		} else {
			ready = append(ready, b)
		}
	}
	batches := batchesOf(ready)
	for i, batch := range batches {
		if i < len(batches)-1 {
			go f.deliver(batch)
		} else {
			f.deliver(batch)
		}
	}
}

// errNoTarget: a policy that has changed.
var errNoTarget = errors.New("neither the task nor its queue has a target any more")

// prepare reads the task of a grant, completed by its queue's policy. refused settles a grant whose attempt must not
// begin; it is nil otherwise.
func (f *firing) prepare(g task.Grant) (_ begun, refused *fsmpb.Settle) {
	policy := f.shard.cfg.Policy
	now, _ := f.shard.clock.now()
	granted, leaseEndMs, ok := f.machine().Attempt(g.Namespace, g.ID, g.Fence)
	if !ok {
		return begun{}, stopped(now)
	}
	queue := f.shard.policyOf(g.Lane.Namespace, g.Lane.Queue)
	if granted.Spec.Target == nil {
		granted.Spec.Target = queue.GetTarget()
	}
	b := begun{grant: g, plan: policy.planOf(granted, queue), batched: queue.GetBatchMax() > 1}
	err := b.plan.unstartable(time.UnixMilli(leaseEndMs), now)
	if granted.Spec.Target == nil {
		err = errNoTarget
	}
	if err != nil {
		f.shard.cfg.Logger.Warn("attempt not begun", "task", g.ID, "fence", g.Fence, "err", err)
		return begun{}, released()
	}
	b.Attempt = task.Attempt{Task: granted, Timeout: b.plan.timeout, Secrets: queue.GetSecrets()}
	return b, nil
}

// batchesOf parts attempts into those that go together: with equal targets, and not too large.
func batchesOf(attempts []begun) [][]begun {
	var batches [][]begun
	for len(attempts) > 0 {
		batch, rest, bytes := attempts[:1:1], []begun(nil), len(attempts[0].Task.Spec.Payload)
		for _, b := range attempts[1:] {
			n := len(b.Task.Spec.Payload)
			if bytes+n <= maxBatchBytes && proto.Equal(b.Task.Spec.Target, batch[0].Task.Spec.Target) {
				batch = append(batch, b)
				bytes += n
			} else {
				rest = append(rest, b)
			}
		}
		batches = append(batches, batch)
		attempts = rest
	}
	return batches
}

// deliver makes attempts with equal targets, and settles them.
func (f *firing) deliver(batch []begun) {
	timeout := batch[0].Timeout
	ctx, cancel := context.WithTimeout(f.shard.attempts.ctx, timeout)
	defer cancel()
	started, _ := f.shard.clock.now()
	began := time.Now()
	outcomes := f.outcomes(ctx, batch)
	took := time.Since(began)
	now, _ := f.shard.clock.now()
	for i, b := range batch {
		op := f.shard.cfg.Policy.verdict(b.Task, b.plan, outcomes[i], now)
		op.StartedAtMs, op.Node = started.UnixMilli(), f.shard.cfg.NodeID
		f.conclude(b.grant, op, endingOf(outcomes[i], took, timeout))
	}
}

// outcomes returns one for each attempt of a batch.
func (f *firing) outcomes(ctx context.Context, batch []begun) []task.Outcome {
	if len(batch) == 1 && !batch[0].batched {
		return []task.Outcome{f.shard.cfg.Deliver.Deliver(ctx, batch[0].Attempt)}
	}
	attempts := make([]task.Attempt, len(batch))
	for i, b := range batch {
		attempts[i] = b.Attempt
	}
	outcomes := f.shard.cfg.Deliver.DeliverBatch(ctx, attempts)
	for len(outcomes) < len(batch) {
		outcomes = append(outcomes, task.Outcome{Error: "nothing is known of the attempt's outcome"})
	}
	return outcomes
}

// endingOf is what an outcome says about the receiver. That it wants no further attempt at a task is nothing.
func endingOf(out task.Outcome, took, timeout time.Duration) *throttle.Ending {
	if out.Permanent {
		return nil
	}
	return &throttle.Ending{
		Delivered: out.Delivered, TimedOut: took >= timeout, Took: took, RetryAfter: out.RetryAfter,
	}
}

// conclude settles an attempt that has ended, or that is not begun.
func (f *firing) conclude(g task.Grant, op *fsmpb.Settle, how *throttle.Ending) {
	defer f.shard.attempts.end()
	f.shard.metrics.settled(verdictName(op.Verdict))
	f.settle(g, op, how)
}

// startsAtOnce is how many attempts begin before other goroutines have their turn.
const startsAtOnce = 16

// inTurns calls start for each of 0 to n-1, which begins a goroutine, and lets other goroutines run in between. An
// attempt costs a tenth of a millisecond of processor before it waits for its receiver, and goroutines run in the order
// in which they became ready. Raft's heartbeats would come too late behind thousands of attempts that begin at once.
func inTurns(n int, start func(i int)) {
	for i := range n {
		start(i)
		if i%startsAtOnce == startsAtOnce-1 {
			runtime.Gosched()
		}
	}
}
