package sim

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/belfryhq/belfry/chaos/history"
	"github.com/belfryhq/belfry/chaos/load"
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
)

// pulledQueue is the queue whose tasks consumers lease.
const pulledQueue = "jobs"

// away draws how long a consumer stays away after a call: not at all in nine cases of ten.
func (l *driver) away(rng *rand.Rand) time.Duration {
	if rng.IntN(10) > 0 {
		return 0
	}
	return load.Between(rng, time.Second, l.world.cfg.pace.maxDelay/4)
}

func leaseFor(rng *rand.Rand) time.Duration {
	const least, most = 800 * time.Millisecond, 20 * time.Second
	return load.Between(rng, least, most)
}

// Lease makes one lease call to a random node, and records the leases in its answer. ok is false if the call failed.
func (l *driver) Lease(ctx context.Context, rng *rand.Rand) (_ []load.Lease, ok bool) {
	w := l.world
	asked := w.rec.Now()
	request := task.LeaseRequest{
		Namespace: task.DefaultNamespace, Queue: pulledQueue, Max: 1 + rng.IntN(5), Lease: leaseFor(rng),
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

// leases records the tasks of one answer as arrivals, and returns them as leases.
func (l *driver) leases(asked history.Instant, tasks []*fsmpb.Task) []load.Lease {
	at := l.world.rec.Now()
	all := make([]load.Lease, len(tasks))
	for i, t := range tasks {
		body := load.Decode(t.Spec.Payload)
		all[i] = load.Lease{Arrival: history.Arrival{
			At: at, ID: t.Id, WebhookID: t.WebhookId, Attempt: int(t.Attempts), Fence: t.Fence, Due: instant(t.FireAtMs),
			Scheduled: scheduledAt(t),
			Body:      history.Fingerprint(t.Spec.Payload), Wrote: body.Op,
			Pulled: true, Shard: t.Shard, Asked: asked, LeaseEnds: instant(t.LeaseEndMs),
		}, Payload: body, Occurrence: t.Occurrence}
		l.world.rec.Arrive(all[i].Arrival)
	}
	return all
}
