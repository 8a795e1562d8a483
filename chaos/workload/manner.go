package workload

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/belfryhq/belfry/chaos/history"
)

// holder is a consumer with one task in hand.
type holder struct {
	load  *Load
	lease lease
	rng   *rand.Rand
}

// manner is what a consumer does with a task.
type manner func(h *holder, ctx context.Context)

// manners are those of good consumers and of bad ones, with how often.
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
	h.load.perform(ctx, h.rng, h.load.settle(h.load.cfg.Queue, kind, h.lease, delay))
}

func (h *holder) ack(ctx context.Context) { h.settle(ctx, history.Ack, 0) }

func (h *holder) ackTwice(ctx context.Context) {
	h.ack(ctx)
	h.ack(ctx)
}

// extendAndAck may ack after the end of the lease as it was at first.
func (h *holder) extendAndAck(ctx context.Context) {
	h.settle(ctx, history.Extend, h.load.leaseFor(h.rng))
	if wait(ctx, time.Duration(h.rng.Int64N(int64(h.load.cfg.Lease)))) {
		h.ack(ctx)
	}
}

func (h *holder) nack(ctx context.Context) { h.settle(ctx, history.Nack, 0) }

const maxNackDelay = time.Second

func (h *holder) nackWithDelay(ctx context.Context) {
	h.settle(ctx, history.Nack, time.Millisecond+time.Duration(h.rng.Int64N(int64(maxNackDelay))))
}

// nackAndAck is told that the lease has ended.
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

func (h *holder) extendTooLate(ctx context.Context) {
	h.late(ctx, func(ctx context.Context) { h.settle(ctx, history.Extend, h.load.leaseFor(h.rng)) })
}

// overdue is how long after the end of its lease a consumer wakes up: sometimes within what the nodes may take to
// notice, sometimes long after.
const overdue = 800 * time.Millisecond

func (h *holder) late(ctx context.Context, settle func(context.Context)) {
	end := h.lease.LeaseEnds.Add(time.Duration(h.rng.Int64N(int64(overdue))))
	if wait(ctx, end.Sub(h.load.cfg.Recorder.Now())) {
		settle(ctx)
	}
}
