package workload

import (
	"context"
	"time"

	"github.com/belfryhq/belfry/chaos/history"
	"github.com/belfryhq/belfry/client"
)

// lease is a task that a consumer was given.
type lease struct {
	history.Arrival
	payload payload
	receipt string
}

// leases makes the record of an answer, which came at one instant.
func (l *Load) leases(asked history.Instant, length time.Duration, given []client.Leased) []lease {
	got := l.cfg.Recorder.Now()
	all := make([]lease, len(given))
	arrivals := make([]history.Arrival, len(given))
	for i := range given {
		g := &given[i]
		p := decode(g.Payload)
		arrivals[i] = history.Arrival{
			At: got, ID: g.ID, WebhookID: g.WebhookID, Attempt: g.Attempt, Fence: g.Fence, Due: history.At(g.FireAt),
			Body: history.Fingerprint(g.Payload), Wrote: p.Op,
			Pulled: true, Shard: g.Shard, Asked: asked, LeaseEnds: history.At(g.LeaseEndsAt),
			LeaseFor: length,
		}
		all[i] = lease{arrivals[i], p, g.Receipt}
	}
	l.cfg.Recorder.Arrive(arrivals...)
	return all
}

// settle is one of the four things that a consumer can do with a lease. A nack without a delay leaves the retry to the
// backoff; an extend lasts for delay.
func (l *Load) settle(queue string, kind history.Kind, of lease, delay time.Duration) operation {
	what := history.Call{Op: l.cfg.Recorder.NextOp(), Kind: kind, ID: of.ID,
		Ask: history.Ask{Fence: of.Fence, Delay: delay}}
	settlement := settlementOf(kind, of.receipt, delay)
	return operation{what: what, send: func(ctx context.Context, c *client.Client, _ string) (history.Answer, error) {
		settled := c.Settle(ctx, queue, settlement)[0]
		return history.Answer{Status: settled.Status, Replaced: settled.Replaced}, settled.Err
	}}
}

func settlementOf(kind history.Kind, receipt string, delay time.Duration) client.Settlement {
	switch kind {
	case history.Ack:
		return client.Settlement{Ack: []string{receipt}}
	case history.Release:
		return client.Settlement{Release: []string{receipt}}
	case history.Extend:
		return client.Settlement{Extend: []client.Extend{{Receipt: receipt, Lease: delay}}}
	}
	nack := client.Nack{Receipt: receipt, Reason: "as the seed would have it"}
	if delay > 0 {
		nack.Delay = &delay
	}
	return client.Settlement{Nack: []client.Nack{nack}}
}
