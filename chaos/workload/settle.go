package workload

import (
	"time"

	"github.com/belfryhq/belfry/chaos/history"
	"github.com/belfryhq/belfry/chaos/load"
	"github.com/belfryhq/belfry/client"
)

// instantOrZero returns an instant, and 0 for the zero time.
func instantOrZero(t time.Time) history.Instant {
	if t.IsZero() {
		return 0
	}
	return history.At(t)
}

// leases records the tasks of one answer as arrivals at the same instant, and returns them as leases.
func (l *Load) leases(asked history.Instant, length time.Duration, given []client.Leased) []load.Lease {
	got := l.cfg.Recorder.Now()
	all := make([]load.Lease, len(given))
	arrivals := make([]history.Arrival, len(given))
	for i := range given {
		g := &given[i]
		p := load.Decode(g.Payload)
		arrivals[i] = history.Arrival{
			At: got, ID: g.ID, Namespace: l.cfg.Namespace, WebhookID: g.WebhookID, Attempt: g.Attempt, Fence: g.Fence,
			Due: history.At(g.FireAt), Scheduled: instantOrZero(g.Scheduled),
			Body: history.Fingerprint(g.Payload), Wrote: p.Op,
			Pulled: true, Shard: g.Shard, Asked: asked, LeaseEnds: history.At(g.LeaseEndsAt),
			LeaseFor: length,
		}
		all[i] = load.Lease{Arrival: arrivals[i], Payload: p, Receipt: g.Receipt}
	}
	l.cfg.Recorder.Arrive(arrivals...)
	return all
}

// settlementOf returns the client's settlement for an operation that settles a lease.
func settlementOf(op load.Operation) client.Settlement {
	receipt := op.Lease.Receipt
	switch op.What.Kind {
	case history.Ack:
		return client.Settlement{Ack: []string{receipt}}
	case history.Release:
		return client.Settlement{Release: []string{receipt}}
	case history.Extend:
		return client.Settlement{Extend: []client.Extend{{Receipt: receipt, Lease: op.Delay}}}
	}
	nack := client.Nack{Receipt: receipt, Reason: "as the seed would have it"}
	if op.Delay > 0 {
		nack.Delay = &op.Delay
	}
	return client.Settlement{Nack: []client.Nack{nack}}
}
