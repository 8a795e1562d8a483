package load

import (
	"context"
	"hash/fnv"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/belfryhq/belfry/chaos/history"
	"github.com/belfryhq/belfry/internal/wait"
)

// Lease is a task that a consumer has leased.
type Lease struct {
	history.Arrival
	Payload    Payload
	Receipt    string // from a real service
	Occurrence uint64 // from a simulated one
}

// Crashes sets how often consumers crash: a consumer forgets one lease answer in 25, as if it had been killed.
const Crashes = 25

// Consume runs one consumer until the context ends. It returns when the consumer has treated all its leases.
func (p *Player) Consume(ctx context.Context, rng *rand.Rand) {
	var busy sync.WaitGroup
	defer busy.Wait()
	for ctx.Err() == nil {
		leases, ok := p.cfg.Driver.Lease(ctx, rng)
		if rng.IntN(Crashes) == 0 {
			continue // another consumer starts in its place and knows of no lease
		}
		for _, l := range leases {
			busy.Go(func() { p.Treat(ctx, l) })
		}
		if !ok && !wait.For(ctx, p.cfg.MaxPause) {
			return
		}
		if p.cfg.Away != nil && !wait.For(ctx, p.cfg.Away(rng)) {
			return
		}
	}
}

// sights counts how often each task has been leased.
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

// enough bounds how often consumers play with a task. They simply acknowledge a task after that number of leases,
// since otherwise its calls would become too many to be judged.
const enough = 15

// Treat settles a lease, well or badly, or forgets it. The choice depends on the seed, the task's id and how often the
// task was leased before, but not on the consumer.
func (p *Player) Treat(ctx context.Context, l Lease) {
	sight := p.sights.next(l.ID)
	h := &holder{player: p, lease: l, rng: rand.New(rand.NewPCG(p.cfg.Seed, hashed(l.ID)+sight))}
	if !wait.For(ctx, l.Payload.HoldFor()) {
		return
	}
	switch {
	case sight > enough:
		h.ack(ctx)
	case l.Attempt <= l.Payload.Fail:
		h.nack(ctx)
	default:
		pick(h.rng, manners)(h, ctx)
	}
}

func hashed(id string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(id))
	return h.Sum64()
}

// holder is a consumer that holds one lease.
type holder struct {
	player *Player
	lease  Lease
	rng    *rand.Rand
}

// manner is one way to treat a lease.
type manner func(h *holder, ctx context.Context)

// manners are the ways of good and bad consumers, with their weights.
var manners = []choice[manner]{
	{60, (*holder).ack},
	{5, (*holder).ackTwice},
	{5, (*holder).extendAndAck},
	{6, (*holder).nack},
	{5, (*holder).nackWithDelay},
	{3, (*holder).nackAndAck},
	{4, (*holder).release},
	{2, (*holder).releaseAndNack},
	{3, (*holder).forget},
	{4, (*holder).ackTooLate},
	{2, (*holder).extendTooLate},
	{1, (*holder).nackTooLate},
}

func (h *holder) settle(ctx context.Context, kind history.Kind, delay time.Duration) {
	h.player.Perform(ctx, h.rng, h.player.Settle(kind, h.lease, delay.Truncate(time.Millisecond)))
}

func (h *holder) ack(ctx context.Context) { h.settle(ctx, history.Ack, 0) }

func (h *holder) ackTwice(ctx context.Context) {
	h.ack(ctx)
	h.ack(ctx)
}

func (h *holder) extend(ctx context.Context) {
	h.settle(ctx, history.Extend, h.player.cfg.Draw.LeaseFor(h.rng))
}

// extendAndAck extends a lease and acks after a pause, perhaps after the original end of the lease.
func (h *holder) extendAndAck(ctx context.Context) {
	h.extend(ctx)
	if wait.For(ctx, h.player.cfg.Draw.LeaseFor(h.rng)) {
		h.ack(ctx)
	}
}

func (h *holder) nack(ctx context.Context) { h.settle(ctx, history.Nack, 0) }

func (h *holder) nackWithDelay(ctx context.Context) {
	h.settle(ctx, history.Nack, time.Millisecond+upTo(h.rng, h.player.cfg.Draw.NackFor))
}

// nackAndAck acks a lease that the nack has ended.
func (h *holder) nackAndAck(ctx context.Context) {
	h.nack(ctx)
	h.ack(ctx)
}

func (h *holder) release(ctx context.Context) { h.settle(ctx, history.Release, 0) }

func (h *holder) releaseAndNack(ctx context.Context) {
	h.release(ctx)
	h.nack(ctx)
}

// forget lets the lease end.
func (h *holder) forget(context.Context) {}

func (h *holder) ackTooLate(ctx context.Context) { h.late(ctx, h.ack) }

func (h *holder) nackTooLate(ctx context.Context) { h.late(ctx, h.nack) }

func (h *holder) extendTooLate(ctx context.Context) { h.late(ctx, h.extend) }

// early is how long before the end of its lease a late consumer settles at the earliest.
const early = 100 * time.Millisecond

// late settles a lease around its end or later: sometimes within the time that nodes may take to notice the end,
// sometimes long after.
func (h *holder) late(ctx context.Context, settle func(context.Context)) {
	end := h.lease.LeaseEnds.Add(upTo(h.rng, h.player.cfg.Draw.Overdue) - early)
	if wait.For(ctx, end.Sub(h.player.cfg.Recorder.Now())) {
		settle(ctx)
	}
}
