package workload

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/belfryhq/belfry/chaos/load"
	"github.com/belfryhq/belfry/client"
)

// Consume leases and settles the pulled tasks, through random nodes, until the context ends. Without Consume these
// tasks stay in their queues.
func (l *Load) Consume(ctx context.Context) {
	var all sync.WaitGroup
	for n := range l.cfg.Consumers {
		all.Go(func() { l.player.Consume(ctx, rand.New(rand.NewPCG(l.cfg.Seed, consumers+uint64(n)))) })
	}
	for n := range l.cfg.BulkConsumers {
		all.Go(func() { l.consumeBulk(ctx, uint64(n)) })
	}
	all.Wait()
}

// The streams of random numbers of one seed, each with a range of its own. Scripts use the range from 0 on.
const (
	consumers uint64 = (iota + 1) << 40
	bulkConsumers
	bulkBatches
	bulkSizes
	forgers
)

const (
	impatience = 20 // one lease call in 20 is cut off, perhaps while its answer is on the way
	leaseWait  = time.Second
)

func (l *Load) demand(rng *rand.Rand) client.Demand {
	return client.Demand{Max: 1 + rng.IntN(10), Wait: leaseWait, Lease: l.leaseFor(rng)}
}

// leaseFor draws the length of a lease, from a quarter of Config.Lease to all of it.
func (l *Load) leaseFor(rng *rand.Rand) time.Duration {
	quarter := l.cfg.Lease / 4
	return quarter + time.Duration(rng.Int64N(int64(3*quarter)))
}

// lease makes one lease call to a random node. Tasks in an answer that is lost can be leased again when their leases
// have ended.
func (l *Load) lease(ctx context.Context, rng *rand.Rand, queue string, want client.Demand) (_ []load.Lease, ok bool) {
	patience := want.Wait + l.cfg.CallTimeout
	if rng.IntN(impatience) == 0 {
		patience = time.Duration(rng.Int64N(int64(want.Wait)))
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	asked := l.cfg.Recorder.Now()
	given, err := l.caller.clients[l.anyNode(rng)].Lease(ctx, queue, want)
	if len(given) > 0 {
		l.seen.Store(&sight{queue, given[0].Receipt})
	}
	return l.leases(asked, want.Lease, given), err == nil
}
