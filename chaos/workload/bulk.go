package workload

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/belfryhq/belfry/chaos/history"
	"github.com/belfryhq/belfry/chaos/load"
	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/internal/loop"
	"github.com/belfryhq/belfry/internal/wait"
)

// Percentages of the tasks of the bulk.
const (
	bulkPushed    = 50 // to the receiver, many in a request; the others are pulled
	bulkCancelled = 5  // by later batches
)

// bulkAtOnce is how many batches may wait for their answers at the same time. Most batches have a line for every
// shard, so a shard without a leader holds them up.
const bulkAtOnce = 36

// The pauses between tries of a bulk batch are long: each try of hundreds of lines makes hundreds of records.
const (
	bulkMinPause = 100 * time.Millisecond
	bulkMaxPause = 2 * time.Second
)

// bulkRequest is the largest number of bulk tasks in one request to the receiver.
const bulkRequest = 100

// Bulk schedules plain tasks by batch at a high rate, and cancels a few of them by later batches, until stop is closed
// or ctx ends. It returns when the batches that were sent are answered; the end of ctx cuts them short. Batch n is the
// same in each run with the seed. An error means that the queues of the bulk could not be made.
func (l *Load) Bulk(ctx context.Context, stop <-chan struct{}) error {
	if err := l.putBulkQueues(ctx); err != nil {
		return err
	}
	batchesPerSecond := max(1, float64(l.cfg.BulkPerSecond)/float64(l.cfg.BulkLines))
	pace(ctx, stop, batchesPerSecond, 0, bulkAtOnce, func(n int) { l.bulkBatch(ctx, uint64(n)) })
	return nil
}

// bulkBatch sends a batch, and repeats the lines without a final answer until all have one or the time is up.
func (l *Load) bulkBatch(ctx context.Context, n uint64) {
	rng := rand.New(rand.NewPCG(l.cfg.Seed, bulkBatches+n))
	left := l.bulkItems(rng, n)
	end := l.cfg.Recorder.Now().Add(l.cfg.RetryFor)
	for pause := bulkMinPause; ; pause = min(2*pause, bulkMaxPause) {
		left = without(left, l.caller.batch(ctx, l.anyNode(rng), l.timeout(rng), left), load.Final)
		if len(left) == 0 || l.cfg.Recorder.Now() > end || !wait.For(ctx, pause) {
			return
		}
	}
}

// bulkItems returns the lines of batch n: new tasks, and cancels of tasks of one of the three batches before.
func (l *Load) bulkItems(rng *rand.Rand, n uint64) []load.Operation {
	lines := l.bulkLines(n)
	items := make([]load.Operation, 0, lines+lines*bulkCancelled/100)
	for i := range lines {
		items = append(items, l.bulkTask(rng, l.bulkID(n, i)))
	}
	if back := 1 + rng.Uint64N(3); back <= n {
		victims := l.bulkLines(n - back)
		for range victims * bulkCancelled / 100 {
			items = append(items, l.player.Cancel(l.bulkID(n-back, rng.IntN(victims))))
		}
	}
	return items
}

// bulkLines returns how many tasks batch n makes: from half to one and a half times Config.BulkLines.
func (l *Load) bulkLines(n uint64) int {
	rng := rand.New(rand.NewPCG(l.cfg.Seed, bulkSizes+n))
	return max(1, l.cfg.BulkLines/2+rng.IntN(l.cfg.BulkLines))
}

func (l *Load) bulkID(batch uint64, i int) string {
	return fmt.Sprintf("%sbulk-%d-%d", l.cfg.Prefix, batch, i)
}

// bulkTask returns the schedule of a task with as few settings as possible.
func (l *Load) bulkTask(rng *rand.Rand, id string) load.Operation {
	t := load.Task{FireAt: l.due(rng), Queue: l.cfg.pullQueue()}
	if rng.IntN(100) < bulkPushed {
		t.Queue = l.cfg.pushQueue()
	}
	return l.player.Schedule(id, t)
}

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
		if !ok && !wait.For(ctx, maxPause) {
			return
		}
	}
}

// ackAll acknowledges leases in one call, and repeats those without a final answer until the leases have ended.
func (l *Load) ackAll(ctx context.Context, rng *rand.Rand, leases []load.Lease) {
	end := l.cfg.Recorder.Now().Add(bulkLease)
	first := l.cfg.Recorder.NextOps(len(leases))
	acks := make([]ack, len(leases))
	for i, lease := range leases {
		acks[i] = ack{receipt: lease.Receipt, call: history.Call{
			Op: first + int64(i), Kind: history.Ack, ID: lease.ID, Batch: true, Ask: history.Ask{Fence: lease.Fence},
		}}
	}
	for pause := bulkMinPause; ; pause = min(2*pause, bulkMaxPause) {
		acks = l.caller.ack(ctx, l.anyNode(rng), l.timeout(rng), l.cfg.pullQueue(), acks)
		if len(acks) == 0 || l.cfg.Recorder.Now() > end || !wait.For(ctx, pause) {
			return
		}
	}
}

// ack is the acknowledgement of one lease.
type ack struct {
	call    history.Call
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
		calls[i], receipts[i] = a.call, a.receipt
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

const (
	burstLines   = 1000 // lines of a request: the chunk of the client
	burstStreams = 4
	burstTimeout = 30 * time.Second
)

// Burst schedules n tasks by batch, all due at the same instant, in four streams with one node each. It returns when
// all are acknowledged, or with the error of the first stream that failed.
func (l *Load) Burst(ctx context.Context, n int, due time.Time) error {
	streams := make([]int, burstStreams) // a node each, by its place among all
	for i := range streams {
		streams[i] = i % len(l.cfg.Nodes)
	}
	_, err := loop.Closed(ctx, streams, (n+burstLines-1)/burstLines, loop.Forever,
		func(ctx context.Context, node, chunk int) error {
			return l.burst(ctx, node, chunk*burstLines, min(burstLines, n-chunk*burstLines), due)
		})
	return err
}

func (l *Load) burst(ctx context.Context, node, first, n int, due time.Time) error {
	ops := make([]load.Operation, n)
	for i := range ops {
		ops[i] = l.player.Schedule(fmt.Sprintf("%sburst-%d", l.cfg.Prefix, first+i), load.Task{FireAt: due})
	}
	for {
		endings := l.caller.batch(ctx, node, burstTimeout, ops)
		for i, e := range endings {
			if e.Outcome != history.OK && load.Final(e.Outcome, e.Answer) {
				return fmt.Errorf("%s: %s", ops[i].What.ID, e.Answer.Error)
			}
		}
		ops = without(ops, endings, load.Final)
		if len(ops) == 0 {
			return nil
		}
		if !wait.For(ctx, maxPause) {
			return fmt.Errorf("%s: %w", ops[0].What.ID, context.Cause(ctx))
		}
	}
}
