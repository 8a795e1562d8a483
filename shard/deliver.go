package shard

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"runtime"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/internal/tracing"
	"github.com/belfryhq/belfry/shard/dispatch"
	"github.com/belfryhq/belfry/shard/internal/throttle"
)

// maxBatchBytes limits the payload of one request with several tasks.
const maxBatchBytes = 1 << 20

// launch starts the due attempts of pushed lanes, in the order of their grants. Attempts of one lane share a request if
// the queue allows batches; the request starts with the first of them.
func (f *firing) launch(due []task.Grant) {
	requests := f.requestsOf(due)
	inTurns(len(requests), func(i int) { go f.attempt(requests[i]) })
}

// requestsOf splits grants into the groups that may share a request.
func (f *firing) requestsOf(due []task.Grant) (requests [][]task.Grant) {
	last := map[task.Lane]int{} // index in requests of each batching lane's last request
	for i, g := range due {
		if most := f.batchMax(g); most > 1 {
			if at, ok := last[g.Lane.Receiver()]; ok && len(requests[at]) < most {
				requests[at] = append(requests[at], g)
				continue
			}
			last[g.Lane.Receiver()] = len(requests)
		}
		requests = append(requests, due[i:i+1:i+1])
	}
	return requests
}

func (f *firing) batchMax(g task.Grant) int {
	return max(int(f.shard.cfg.Policies.Policy(g.Lane.Namespace, g.Lane.Queue).GetBatchMax()), 1)
}

// begun is an attempt that is about to run, with its grant and its plan.
type begun struct {
	task.Attempt
	grant task.Grant
	open  *openAttempt
	plan  plan
	queue *fsmpb.QueuePolicy // nil: it has none
	span  tracing.Span       // of the attempt
	// batched is set if the queue sends batches, and the request has a body. A single task goes as a batch too, so that
	// the receiver meets one form only.
	batched bool
}

// attempt runs the attempts of grants to their end, even past the end of the leadership.
func (f *firing) attempt(grants []task.Grant) {
	ready := make([]begun, 0, len(grants))
	for _, g := range grants {
		o := f.shard.attempts.start(f, g)
		b, refused, later := f.prepare(o)
		switch {
		case refused != nil:
			f.refuse(o, refused)
		case later != 0:
			f.holdUntil(o, later)
		default:
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

// errNoTarget is the reason for not starting an attempt whose queue's policy lost its target after the grant.
var errNoTarget = errors.New("neither the task nor its queue has a target any more")

// prepare reads the task of an attempt and completes it from its queue's policy. A non-nil refused is the settle of a
// grant whose attempt must not start. An attempt that may start only a moment later returns that instant, in Unix
// milliseconds.
func (f *firing) prepare(o *openAttempt) (_ begun, refused *fsmpb.Settle, later int64) {
	policy := f.shard.cfg.Policy
	now, _ := f.shard.clock.now()
	g, granted, leaseEndMs := f.shard.attempts.read(o, f.machine())
	if granted == nil {
		return begun{}, f.unbegun(g, now), 0
	}
	queue := f.shard.cfg.Policies.Policy(g.Lane.Namespace, g.Lane.Queue)
	if opens, closed := f.shard.opening(granted, queue, now); closed {
		if opens.Sub(now) <= longestHold {
			return begun{}, nil, notBefore(opens)
		}
		return begun{}, held(g, opens), 0
	}
	if granted.Spec.Target == nil {
		granted.Spec.Target = queue.GetTarget()
	}
	b := begun{grant: g, open: o, plan: policy.planOf(granted, queue), queue: queue}
	b.batched = queue.GetBatchMax() > 1 && granted.Spec.Target.GetMethod() != http.MethodGet
	err := b.plan.unstartable(time.UnixMilli(leaseEndMs), now)
	if granted.Spec.Target == nil {
		err = errNoTarget
	}
	if err == nil && queue.GetSealed() != nil {
		return begun{}, f.unsealed(granted, b.plan, queue, now), 0
	}
	if err != nil {
		f.shard.cfg.Logger.Warn("attempt not begun", "task", g.ID, "fence", g.Fence, "err", err)
		return begun{}, released(), 0
	}
	b.Attempt = task.Attempt{Task: granted, Timeout: b.plan.timeout, Secrets: queue.GetSecrets()}
	for _, f := range []*fsmpb.FollowUp{b.followUp(fsmpb.State_STATE_DELIVERED), b.followUp(fsmpb.State_STATE_DEAD)} {
		b.WantsStatus = b.WantsStatus || task.WantsOutcome(f)
		b.KeepAnswer = b.KeepAnswer || f.GetKeepAnswer()
	}
	return b, nil, 0
}

// followUp returns the follow-up of the task if it ends as delivered or dead, or nil.
func (b *begun) followUp(end fsmpb.State) *fsmpb.FollowUp {
	return task.FollowUpOf(end, b.grant.ID, b.Task.Spec, b.queue.GetOnDelivered(), b.queue.GetOnDead())
}

// tellOutcome gives the settle of an ended task what its follow-up gets of the receiver's answer.
func (b *begun) tellOutcome(op *fsmpb.Settle, out task.Outcome) {
	var f *fsmpb.FollowUp
	switch op.Verdict {
	case fsmpb.Verdict_VERDICT_DELIVERED:
		f = b.followUp(fsmpb.State_STATE_DELIVERED)
	case fsmpb.Verdict_VERDICT_DEAD:
		f = b.followUp(fsmpb.State_STATE_DEAD)
	}
	if !task.WantsOutcome(f) {
		return
	}
	op.Status = uint32(min(max(out.Status, 0), 999)) // a result of a batch may name any number
	if f.KeepAnswer {
		op.Answer = []byte(out.Answer)
	}
}

// unsealed returns the settle of an attempt that cannot start because this node lacks the cluster key of the queue's
// secrets. The task waits for its next attempt, also beyond its last one: the key may come back.
func (f *firing) unsealed(t *fsmpb.Task, p plan, queue *fsmpb.QueuePolicy, now time.Time) *fsmpb.Settle {
	p.maxAttempts = math.MaxUint32
	node := f.shard.cfg.NodeID
	out := task.Outcome{Error: fmt.Sprintf("not sent: the queue's secrets are sealed under cluster key %s, which node %s "+
		"does not have", queue.Sealed.Key, node)}
	op := f.shard.cfg.Policy.verdict(t, p, out, false, now)
	op.StartedAtMs, op.Node = now.UnixMilli(), node
	return op
}

// batchesOf splits attempts into batches with equal targets and at most maxBatchBytes of payload.
func batchesOf(attempts []begun) [][]begun {
	var batches [][]begun
	for len(attempts) > 0 {
		batch, rest, bytes := attempts[:1:1], []begun(nil), len(attempts[0].Task.Spec.Payload)
		for _, b := range attempts[1:] {
			n := len(b.Task.Spec.Payload)
			if batch[0].batched && bytes+n <= maxBatchBytes && proto.Equal(b.Task.Spec.Target, batch[0].Task.Spec.Target) {
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

// deliver sends attempts with equal targets and settles them.
func (f *firing) deliver(batch []begun) {
	timeout := batch[0].Timeout
	ctx, cancel := f.shard.dev.within(f.shard.attempts.ctx, timeout)
	defer cancel()
	started, _ := f.shard.clock.now()
	began := time.Now()
	f.trace(ctx, batch)
	hung := f.watch(batch)
	outcomes := f.outcomes(ctx, batch)
	took := time.Since(began)
	end := throttle.Ending{TimedOut: took >= timeout, Took: took}
	wasHung := hung()
	now, _ := f.shard.clock.now()
	for i, b := range batch {
		op := f.shard.cfg.Policy.verdict(b.Task, b.plan, outcomes[i], b.grant.Probe, now)
		op.StartedAtMs, op.Node = started.UnixMilli(), f.shard.cfg.NodeID
		b.tellOutcome(op, outcomes[i])
		b.span.Attempted(outcomes[i].Delivered, outcomes[i].Error)
		b.span.End()
		out := outcomes[i]
		end.Delivered, end.Refused, end.RetryAfter = out.Delivered, out.Refused || out.Permanent, out.RetryAfter
		f.conclude(b, op, &dispatch.Ending{Ending: end, URL: b.ownURL(), Error: op.Error, Hung: wasHung})
	}
}

// hangs is the time after which an attempt under way says that its receiver hangs.
const hangs = time.Second

// watch tells the planner if attempts hang. The function that it returns ends this, and reports whether they did.
func (f *firing) watch(batch []begun) (hung func() bool) {
	told := make(chan struct{})
	timer := time.AfterFunc(hangs, func() {
		defer close(told)
		f.lead.proposer.intake.tell(func(p *dispatch.Planner, now time.Time) {
			for _, b := range batch {
				p.Hangs(now, b.grant.Lane, b.ownURL())
			}
		})
	})
	return func() bool {
		if timer.Stop() {
			return false
		}
		<-told // the planner learns of the end afterwards
		return true
	}
}

// ownURL returns the URL of the task's own target, or "" for the queue's target.
func (b *begun) ownURL() string {
	if b.grant.Lane.Destination == "" {
		return ""
	}
	return b.Task.Spec.Target.GetUrl()
}

// trace begins the span of each attempt. The receiver gets its context.
func (f *firing) trace(ctx context.Context, batch []begun) {
	for i := range batch {
		b := &batch[i]
		b.span = f.shard.cfg.Tracer.Deliver(ctx, tracing.Attempt{
			Namespace: b.grant.Namespace, Queue: b.grant.Lane.Queue, Task: b.grant.ID, WebhookID: b.Task.WebhookId,
			Traceparent: b.Task.Spec.Traceparent, Destination: b.grant.Lane.Destination,
			Number: b.Task.Attempts, Fence: b.grant.Fence, Shard: f.shard.cfg.ID,
		})
		b.Traceparent = b.span.Traceparent()
	}
}

// outcomes delivers a batch and returns one outcome per attempt.
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

// conclude settles an attempt that has ended, with the leadership that granted it last.
func (f *firing) conclude(b begun, op *fsmpb.Settle, how *dispatch.Ending) {
	defer f.over(b.grant)
	f.shard.metrics.settled(verdictName(op.Verdict))
	s, by, err := f.shard.attempts.conclude(b.open, op, how)
	if err != nil {
		f.logUnsettled(b.grant, err)
		return
	}
	s.rides = !b.grant.Waited && f.shard.mayRide(op, b.grant.Namespace, b.grant.Lane.Queue, b.grant.ID)
	by.queue(s)
}

// refuse settles an attempt that was not made.
func (f *firing) refuse(o *openAttempt, op *fsmpb.Settle) {
	f.shard.metrics.settled(verdictName(op.Verdict))
	g, by := f.shard.attempts.close(o)
	defer f.over(g)
	by.settle(g, op, nil)
}

// startsAtOnce is the number of attempts that start before other goroutines may run.
const startsAtOnce = 16

// inTurns calls start, which launches a goroutine, for each of 0 to n-1, and yields to other goroutines in between. An
// attempt needs a tenth of a millisecond of processor time before it waits for its receiver, and goroutines run in the
// order in which they became ready. Thousands of attempts started at once would delay Raft's heartbeats too long.
func inTurns(n int, start func(i int)) {
	for i := range n {
		start(i)
		if i%startsAtOnce == startsAtOnce-1 {
			runtime.Gosched()
		}
	}
}
