package sim

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/belfryhq/belfry/chaos/history"
	"github.com/belfryhq/belfry/chaos/load"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/internal/wait"
)

// receiver stands for all receivers of webhooks.
type receiver struct {
	mu   sync.Mutex
	rng  *rand.Rand
	down bool    // refuses connections
	deaf float64 // share of its answers that are lost
	slow time.Duration
}

func newReceiver(w *World) *receiver { return &receiver{rng: w.rng("receiver", 0)} }

// behave changes how the receiver behaves. deaf is the share of lost answers, slow the least time until an answer.
func (r *receiver) behave(down bool, deaf float64, slow time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.down, r.deaf, r.slow = down, deaf, slow
}

// moods draws how the receiver treats one attempt: whether it refuses the connection, whether its answer is lost, how
// slow it is, and how long the ways there and back take.
func (r *receiver) moods() (down, deaf bool, slow, there, back time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	trip := func() time.Duration { return time.Duration(100+r.rng.IntN(5000)) * time.Microsecond }
	return r.down, r.deaf > 0 && r.rng.Float64() < r.deaf, r.slow, trip(), trip()
}

// deliverer carries the attempts of a process to the receiver.
type deliverer struct{ p *process }

// Deliver makes one attempt. A freeze of the process does not hold back an attempt on its way to the receiver. An
// attempt whose ctx ends on that way does not arrive; the death of the process ends ctx.
func (d deliverer) Deliver(ctx context.Context, a task.Attempt) task.Outcome {
	if !d.p.host.Gate() {
		<-ctx.Done()
		return task.Outcome{Error: "this process has ended"}
	}
	w := d.p.world
	d.p.beginsRightly(a)
	down, deaf, slow, there, back := w.receiver.moods()
	if !wait.For(ctx, there) {
		return task.Outcome{Error: "timeout"}
	}
	if down {
		return task.Outcome{Error: "connection refused"}
	}
	body := load.Decode(a.Task.Spec.Payload)
	hold := max(body.HoldFor(), slow)
	status := statusOf(body, a.Task.Attempts)
	end, _ := ctx.Deadline()
	heard := !deaf && time.Until(end) > hold+back
	arrival := history.Arrival{
		At: w.rec.Now(), ID: a.Task.Id, WebhookID: a.Task.WebhookId, Attempt: int(a.Task.Attempts), Fence: a.Task.Fence,
		Due: instant(a.Task.FireAtMs), Scheduled: scheduledAt(a.Task), Body: history.Fingerprint(a.Task.Spec.Payload),
		Wrote: body.Op, Held: hold,
	}
	if heard {
		arrival.Answer = status
	}
	w.rec.Arrive(arrival)
	if !heard {
		<-ctx.Done()
		return task.Outcome{Error: "timeout"}
	}
	if !wait.For(ctx, hold+back) || !d.p.host.Gate() {
		return task.Outcome{Error: "timeout"}
	}
	return outcomeOf(status)
}

func statusOf(body load.Payload, attempt uint32) int {
	switch {
	case body.Gone:
		return 410
	case int(attempt) <= body.Fail:
		return 500
	}
	return 200
}

func outcomeOf(status int) task.Outcome {
	switch status {
	case 200:
		return task.Outcome{Delivered: true}
	case 410:
		return task.Outcome{Permanent: true, Error: "410 gone"}
	}
	return task.Outcome{Error: "500 internal server error"}
}

// DeliverBatch makes several attempts in one request, all at the same time.
func (d deliverer) DeliverBatch(ctx context.Context, batch []task.Attempt) []task.Outcome {
	outcomes := make([]task.Outcome, len(batch))
	var wg sync.WaitGroup
	for i, a := range batch {
		wg.Go(func() { outcomes[i] = d.Deliver(ctx, a) })
	}
	wg.Wait()
	return outcomes
}

// beginsRightly reports a problem if an attempt begins before its grant is committed, or before its task is due both
// by the clock of this node and by true time. An attempt may go on if its task was due by the clock of the former
// leader, or by this node's clock before that clock was set back. By true time the attempt is not early then.
func (p *process) beginsRightly(a task.Attempt) {
	p.isGranted(a)
	due := time.UnixMilli(a.Task.FireAtMs)
	if by := p.node.clock.now(); by.Before(due) && time.Now().Before(due) {
		p.world.problem("%s begins attempt %d of %s %v before it is due by its own clock", p.node.name,
			a.Task.Attempts, a.Task.Id, due.Sub(by))
	}
}

// isGranted reports a problem if the local state machine has not applied the grant of an attempt. An applied entry is
// a committed one.
func (p *process) isGranted(a task.Attempt) {
	s, err := p.shard(a.Task.Shard)
	if err != nil {
		return // the replica is being opened or closed
	}
	task, err := s.Get(p.world.ctx, "", a.Task.Id, true)
	if err == nil && task.GetFence() < a.Task.Fence && task.GetRevision() < a.Task.Fence {
		p.world.problem("%s begins attempt %d of %s under fence %d, and has applied no grant above %d", p.node.name,
			a.Task.Attempts, a.Task.Id, a.Task.Fence, task.GetFence())
	}
}
