package workload

import (
	"context"
	"hash/fnv"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/belfryhq/belfry/client"
)

// Consume leases and settles what is pulled, through random nodes, until the context ends. Without it the pulled part
// of a load stays where it is.
func (l *Load) Consume(ctx context.Context) {
	var all sync.WaitGroup
	for n := range l.cfg.Consumers {
		all.Go(func() { l.consume(ctx, uint64(n)) })
	}
	for n := range l.cfg.BulkConsumers {
		all.Go(func() { l.consumeBulk(ctx, uint64(n)) })
	}
	all.Wait()
}

// The streams of random numbers of one seed, each with a part of its own; scripts have the numbers from 0 on.
const (
	consumers uint64 = (iota + 1) << 40
	bulkConsumers
	bulkBatches
	bulkSizes
)

// consume is one consumer. What it does with a task depends on the seed, the task's id and how often that was leased
// before, but not on who has it.
func (l *Load) consume(ctx context.Context, n uint64) {
	rng := rand.New(rand.NewPCG(l.cfg.Seed, consumers+n))
	var busy sync.WaitGroup
	defer busy.Wait()
	for ctx.Err() == nil {
		leases, ok := l.lease(ctx, rng, l.cfg.Queue, l.demand(rng))
		if rng.IntN(crashes) == 0 {
			continue // it was killed, and whoever starts in its place knows of no lease
		}
		for _, of := range leases {
			busy.Go(func() { l.treat(ctx, of) })
		}
		if !ok && !wait(ctx, maxPause) {
			return
		}
	}
}

const (
	crashes    = 25 // one answer in that many is forgotten
	impatience = 20 // one lease call in that many is cut off, perhaps while its answer is on the way
	leaseWait  = time.Second
)

func (l *Load) demand(rng *rand.Rand) client.Demand {
	return client.Demand{Max: 1 + rng.IntN(10), Wait: leaseWait, Lease: l.leaseFor(rng)}
}

// leaseFor is how long a lease shall last: a quarter of the longest at least.
func (l *Load) leaseFor(rng *rand.Rand) time.Duration {
	quarter := l.cfg.Lease / 4
	return quarter + time.Duration(rng.Int64N(int64(3*quarter)))
}

// lease asks a random node once. What comes with an answer that is lost comes again when its leases have ended.
func (l *Load) lease(ctx context.Context, rng *rand.Rand, queue string, want client.Demand) (_ []lease, ok bool) {
	patience := want.Wait + l.cfg.CallTimeout
	if rng.IntN(impatience) == 0 {
		patience = time.Duration(rng.Int64N(int64(want.Wait)))
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	asked := l.cfg.Recorder.Now()
	given, err := l.caller.clients[l.anyNode(rng)].Lease(ctx, queue, want)
	return l.leases(asked, want.Lease, given), err == nil
}

// sights counts how often each task was leased.
type sights struct {
	mu   sync.Mutex // guards seen
	seen map[string]uint64
}

func (s *sights) next(id string) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen[id]++
	return s.seen[id]
}

// enough: a task that comes so often is simply acknowledged, or its calls would become too many to be judged.
const enough = 15

// treat does with a task what consumers do.
func (l *Load) treat(ctx context.Context, of lease) {
	sight := l.sights.next(of.ID)
	rng := rand.New(rand.NewPCG(l.cfg.Seed, hashed(of.ID)+sight))
	c := &holder{load: l, lease: of, rng: rng}
	if !wait(ctx, time.Duration(of.payload.Hold)*time.Millisecond) {
		return
	}
	switch {
	case of.Attempt <= of.payload.Fail:
		c.nack(ctx)
	case sight > enough:
		c.ack(ctx)
	default:
		pick(rng, manners)(c, ctx)
	}
}

func hashed(id string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(id))
	return h.Sum64()
}
