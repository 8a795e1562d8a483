package sim

import (
	"context"
	"hash/fnv"
	"math/rand/v2"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/belfryhq/belfry/chaos/history"
	"github.com/belfryhq/belfry/chaos/sim/wire"
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
)

// pulledQueue is the queue whose tasks are leased by consumers.
const pulledQueue = "jobs"

// lease is a task that a consumer was given.
type lease struct {
	history.Arrival
	occurrence uint64
	payload    payload
}

// consume is one consumer, which is away for a while now and then. It ends with ctx.
func (l *load) consume(ctx context.Context, rng *rand.Rand) {
	for ctx.Err() == nil {
		leases, ok := l.lease(ctx, rng)
		if rng.IntN(20) == 0 {
			continue // it was killed, and whoever starts in its place knows of no lease
		}
		for _, of := range leases {
			l.world.wg.Go(func() { l.treat(of) })
		}
		if !ok && !wire.Sleep(ctx, l.world.cfg.pace.heartbeat/4) {
			return
		}
		if rng.IntN(10) == 0 && !wire.Sleep(ctx, between(rng, span(time.Second, l.world.cfg.pace.maxDelay/4))) {
			return
		}
	}
}

const (
	minLease  = 800 * time.Millisecond
	leaseSpan = 20 * time.Second
)

// lease asks a node once.
func (l *load) lease(ctx context.Context, rng *rand.Rand) (_ []lease, ok bool) {
	w := l.world
	asked := w.rec.Now()
	request := task.LeaseRequest{
		Namespace: task.DefaultNamespace, Queue: pulledQueue, Max: 1 + rng.IntN(5),
		Lease: between(rng, span(minLease, leaseSpan)),
	}
	wait := max(20*time.Second, w.cfg.pace.heartbeat)
	type answer struct {
		tasks []*fsmpb.Task
		err   error
	}
	patience := wait + time.Second
	if rng.IntN(20) == 0 {
		patience = time.Duration(rng.Int64N(int64(wait)))
	}
	got := ask(ctx, l.anyNode(rng), patience, wait, func(ctx context.Context, p *process) answer {
		tasks, err := p.consumers.Lease(ctx, request)
		return answer{tasks, err}
	}, func(err error) answer { return answer{nil, err} })
	return l.leases(asked, got.tasks), got.err == nil
}

// leases records what came.
func (l *load) leases(asked history.Instant, tasks []*fsmpb.Task) []lease {
	at := l.world.rec.Now()
	all := make([]lease, len(tasks))
	for i, t := range tasks {
		body := decode(t.Spec.Payload)
		all[i] = lease{history.Arrival{
			At: at, ID: t.Id, WebhookID: t.WebhookId, Attempt: int(t.Attempts), Fence: t.Fence, Due: instant(t.FireAtMs),
			Body: history.Fingerprint(t.Spec.Payload), Wrote: body.Op,
			Pulled: true, Shard: t.Shard, Asked: asked, LeaseEnds: instant(t.LeaseEndMs),
		}, t.Occurrence, body}
		l.world.rec.Arrive(all[i].Arrival)
	}
	return all
}

// enough: a task that comes so often is acknowledged at once, so that a run comes to an end.
const enough = 12

// treat does with a task what good consumers do, and bad ones. It is the same for the same fence.
func (l *load) treat(of lease) {
	w := l.world
	h := fnv.New64a()
	h.Write([]byte(of.ID))
	rng := rand.New(rand.NewPCG(w.cfg.Seed^h.Sum64(), of.Fence))
	w.sleep(time.Duration(of.payload.Hold) * time.Millisecond)
	c := &holder{l, of, rng}
	n := rng.IntN(100)
	switch {
	case of.Attempt > enough:
		c.settle(history.Ack, 0)
	case uint32(of.Attempt) <= of.payload.Fail:
		c.settle(history.Nack, 0)
	case n < 55:
		c.settle(history.Ack, 0)
	case n < 60:
		c.settle(history.Ack, 0)
		c.settle(history.Ack, 0)
	case n < 67:
		c.settle(history.Extend, between(rng, span(minLease, leaseSpan)))
		w.sleep(between(rng, span(time.Millisecond, leaseSpan)))
		c.settle(history.Ack, 0)
	case n < 75:
		c.settle(history.Nack, 0)
	case n < 80:
		c.settle(history.Nack, between(rng, span(time.Millisecond, w.cfg.pace.maxDelay/20)))
	case n < 84:
		c.settle(history.Nack, 0)
		c.settle(history.Ack, 0)
	case n < 88:
		c.settle(history.Release, 0)
	case n < 92: // forgotten
	default:
		c.late(n)
	}
}

// holder is a consumer with one task in hand.
type holder struct {
	load  *load
	lease lease
	rng   *rand.Rand
}

// late settles when the lease is over, by much or by nothing.
func (h *holder) late(n int) {
	w := h.load.world
	over := h.lease.LeaseEnds.Add(between(h.rng, span(0, 2*time.Second)) - 100*time.Millisecond)
	if !w.sleep(over.Sub(w.rec.Now())) {
		return
	}
	switch n % 3 {
	case 0:
		h.settle(history.Nack, 0)
	case 1:
		h.settle(history.Extend, minLease)
	default:
		h.settle(history.Ack, 0)
	}
}

// settle does one of the four things that can be done with a lease. A nack without a delay leaves the retry to the
// backoff; an extend lasts for delay.
func (h *holder) settle(kind history.Kind, delay time.Duration) {
	h.load.perform(h.rng, h.load.settle(kind, h.lease, delay.Truncate(time.Millisecond)))
}

func (l *load) settle(kind history.Kind, of lease, delay time.Duration) operation {
	o := l.operation(kind, of.ID, history.Ask{Fence: of.Fence, Delay: delay})
	o.cmd.Key = nil // a settle is known by its fence
	if kind == history.Extend {
		o.cmd.Op = &fsmpb.Command_Extend{
			Extend: &fsmpb.Extend{Fence: of.Fence, Occurrence: of.occurrence, LeaseMs: delay.Milliseconds()},
		}
		return o
	}
	s := &fsmpb.Settle{Fence: of.Fence, Occurrence: of.occurrence, Consumer: true, Verdict: verdicts[kind]}
	if kind == history.Nack {
		s.Error = "as the seed would have it"
		if delay > 0 {
			s.DelayMs = proto.Int64(delay.Milliseconds())
		}
	}
	o.cmd.Op = &fsmpb.Command_Settle{Settle: s}
	return o
}

var verdicts = map[history.Kind]fsmpb.Verdict{
	history.Ack: fsmpb.Verdict_VERDICT_DELIVERED, history.Nack: fsmpb.Verdict_VERDICT_RETRY,
	history.Release: fsmpb.Verdict_VERDICT_RELEASED,
}
