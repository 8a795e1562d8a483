package workload

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/belfryhq/belfry/chaos/history"
	"github.com/belfryhq/belfry/chaos/load"
	"github.com/belfryhq/belfry/client"
)

const bulkLease = 5 * time.Second

// consumeBulk runs one consumer of the bulk. It leases hundreds of tasks and acknowledges them together.
func (l *Load) consumeBulk(ctx context.Context, n uint64) {
	rng := rand.New(rand.NewPCG(l.cfg.Seed, bulkConsumers+n))
	for ctx.Err() == nil {
		want := client.Demand{Max: 100 + rng.IntN(400), Wait: leaseWait, Lease: bulkLease}
		leases, ok := l.lease(ctx, rng, l.cfg.pullQueue(), want)
		if len(leases) > 0 && rng.IntN(load.Crashes) > 0 {
			l.ackAll(ctx, rng, leases)
		}
		if !ok && !load.Wait(ctx, maxPause) {
			return
		}
	}
}

// ackAll acknowledges leases in one call, and repeats those without a final answer until the leases have ended.
func (l *Load) ackAll(ctx context.Context, rng *rand.Rand, leases []load.Lease) {
	end := l.cfg.Recorder.Now().Add(bulkLease)
	first := l.cfg.Recorder.NextOps(len(leases))
	acks := make([]ack, len(leases))
	for i, of := range leases {
		acks[i] = ack{receipt: of.Receipt, what: history.Call{
			Op: first + int64(i), Kind: history.Ack, ID: of.ID, Batch: true, Ask: history.Ask{Fence: of.Fence},
		}}
	}
	pause := bulkMinPause
	for {
		acks = l.caller.ack(ctx, l.anyNode(rng), l.timeout(rng), l.cfg.pullQueue(), acks)
		if len(acks) == 0 || l.cfg.Recorder.Now() > end || !load.Wait(ctx, pause) {
			return
		}
		pause = min(2*pause, bulkMaxPause)
	}
}

// ack is the acknowledgement of one lease.
type ack struct {
	what    history.Call
	receipt string
}

// ack acknowledges leases in one request, records each as a call, and returns those without a final answer. It reuses
// the memory of acks.
func (c *caller) ack(ctx context.Context, node int, timeout time.Duration, queue string, acks []ack) []ack {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	ctx, sent := countSends(ctx)
	calls, receipts := make([]history.Call, len(acks)), make([]string, len(acks))
	for i, a := range acks {
		calls[i], receipts[i] = a.what, a.receipt
		calls[i].Node, calls[i].Namespace = c.nodes[node].Name, c.space
	}
	first := c.rec.Begin(calls...)
	settled := c.clients[node].Settle(ctx, queue, client.Settlement{Ack: receipts})
	endings := make([]history.Ending, len(settled))
	left := acks[:0]
	for i, s := range settled {
		e := &endings[i]
		e.Answer.Status, e.Answer.Replaced = s.Status, s.Replaced
		e.Outcome = judge(&e.Answer, s.Err, int(sent.Load()))
		if !load.Final(e.Outcome, e.Answer) {
			left = append(left, acks[i])
		}
	}
	c.rec.EndAll(first, endings)
	return slices.Clip(left)
}
