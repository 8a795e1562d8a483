package workload

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/belfryhq/belfry/bench/subject"
	"github.com/belfryhq/belfry/internal/loop"
)

// steadyDelay is the time between the planned schedule of a steady task and its due instant.
const steadyDelay = time.Second

// steady schedules tasks at a fixed rate while earlier ones fire. It measures the latency of acknowledgements and the
// lateness of tasks under both loads.
func steady(s Sizes) Workload {
	return Workload{
		Name: "steady", Title: fmt.Sprintf("%d a second scheduled and fired", s.SteadyRate),
		Figures: append(latencyKinds("ack_", "acknowledged after"), latenessFigures()...),
		run:     playSteady,
	}
}

func playSteady(ctx context.Context, r *run) error {
	rate := r.sizes.SteadyRate
	n := int(float64(rate) * r.sizes.SteadyFor.Seconds())
	out := &fired{ledger: newLedger(newIDs(), n)}
	stop, err := r.consume(ctx, r.sizes.Consumers, out.got)
	if err != nil {
		return err
	}
	latencies, err := r.scheduleSteadily(ctx, out, n, rate)
	if err := cmp.Or(stop(), err); err != nil {
		return err
	}
	slices.Sort(latencies)
	r.setLatencies("ack_", latencies)
	r.setLateness(out)
	return nil
}

func (r *run) scheduleSteadily(ctx context.Context, out *fired, n, rate int) ([]time.Duration, error) {
	load, err := r.loader(ctx)
	if err != nil {
		return nil, err
	}
	payload := newPayload(r.sizes.Payload)
	if _, err := load.load(ctx, len(load.callers), farOff(newIDs(), payload)); err != nil {
		return nil, err
	}
	begin := time.Now().Truncate(time.Millisecond).Add(time.Second)
	out.first = begin.Add(steadyDelay)
	for i := range n {
		out.setDue(i, out.first.Add(planned(i, rate).Truncate(time.Millisecond)))
	}
	stop := r.meter()
	defer stop()
	schedule := func(ctx context.Context, c subject.Caller, i int) error {
		return c.Schedule(ctx, subject.Task{ID: out.ids.id(i), Due: out.dueOf(i), Payload: payload})
	}
	latencies, err := loop.Open(ctx, load.callers, begin, n, evenly(rate), schedule)
	if err != nil {
		return nil, fmt.Errorf("scheduling: %w", err)
	}
	return latencies, out.wait(ctx, out.dueOf(n-1).Add(r.sizes.Patience))
}
