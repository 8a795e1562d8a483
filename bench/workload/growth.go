package workload

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/belfryhq/belfry/bench/subject"
	"github.com/belfryhq/belfry/internal/loop"
)

// growth measures the cost of a schedule and of a fire at growing sizes of a service.
func growth(
	name, title, unit string, sizes []int, play func(context.Context, *run) error, needs ...need,
) Workload {
	return Workload{
		Name: name, Title: "growing number of " + title, Figures: growthFigures(sizes, unit), needs: needs, run: play,
	}
}

// growthFigures are the figures of grow.
func growthFigures(sizes []int, unit string) []Figure {
	figures := []Figure{
		{Key: "schedule_growth", Title: "schedule, last ÷ first"}, {Key: "fire_growth", Title: "fire, last ÷ first"},
	}
	for _, n := range sizes {
		figures = append(figures, costFigures(n, fmt.Sprintf("with %d %s", n, unit))...)
	}
	return figures
}

// costFigures are the figures of one probe at one size.
func costFigures(size int, at string) []Figure {
	return []Figure{
		{Key: fmt.Sprintf("schedule_%d", size), Title: "schedule " + at, Unit: "µs"},
		{Key: fmt.Sprintf("rate_%d", size), Title: "schedules " + at, Unit: "/s", Higher: true},
		{Key: fmt.Sprintf("fire_%d", size), Title: "fire " + at, Unit: "µs"},
		{Key: fmt.Sprintf("late_%d", size), Title: "late p99 " + at, Unit: "ms"},
	}
}

func playGrowth(ctx context.Context, r *run) error {
	load, err := r.loader(ctx)
	if err != nil {
		return err
	}
	consumers, err := r.callers(ctx, r.sizes.Consumers)
	if err != nil {
		return err
	}
	there := 0
	return r.grow(ctx, r.sizes.Pending, "pending", func(pending int) (_, _ []subject.Caller, err error) {
		_, err = load.load(ctx, pending-there, farOff(newIDs(), newPayload(r.sizes.Payload)))
		there = pending
		return load.callers, consumers, err
	})
}

func playGrowthQueues(ctx context.Context, r *run) error {
	queuer := r.service.(subject.Queuer)
	return r.grow(ctx, r.sizes.Queues, "queues", func(queues int) (callers, consumers []subject.Caller, err error) {
		open := func(i int) (subject.Caller, error) {
			return queuer.QueueCaller(ctx, fmt.Sprintf("bench-%d", i%queues))
		}
		if callers, err = r.open(max(queues, r.sizes.Callers), open); err != nil {
			return nil, nil, err
		}
		consumers, err = r.open(max(queues, r.sizes.Consumers), open)
		return callers, consumers, err
	})
}

// grow brings the service to one size after the other with bring, and probes it at each.
func (r *run) grow(
	ctx context.Context, sizes []int, of string, bring func(size int) (callers, consumers []subject.Caller, err error),
) error {
	stop := r.meter()
	var costs []cost
	for _, n := range sizes {
		callers, consumers, err := bring(n)
		if err != nil {
			return fmt.Errorf("up to %d %s: %w", n, of, err)
		}
		c, err := r.probe(ctx, callers, consumers)
		if err != nil {
			return fmt.Errorf("with %d %s: %w", n, of, err)
		}
		r.setCost(n, c)
		r.say("with %d %s %v", n, of, c)
		costs = append(costs, c)
	}
	stop()
	r.setGrowth(costs)
	return nil
}

// cost is the processor time of one task in all processes of the service.
type cost struct {
	schedule, fire time.Duration
	rate           float64       // schedules a second
	late           time.Duration // lateness at the 99th percentile
}

func (c cost) String() string {
	return fmt.Sprintf("a schedule costs %v and a fire %v; %.0f schedules a second, 99 %% not later than %v",
		c.schedule, c.fire, c.rate, c.late)
}

func (r *run) setCost(size int, c cost) {
	r.set(fmt.Sprintf("schedule_%d", size), float64(c.schedule)/1e3)
	r.set(fmt.Sprintf("rate_%d", size), c.rate)
	r.set(fmt.Sprintf("fire_%d", size), float64(c.fire)/1e3)
	r.set(fmt.Sprintf("late_%d", size), milliseconds(c.late))
}

// setGrowth records the ratio of the last cost to the first, if the first cost is known.
func (r *run) setGrowth(costs []cost) {
	first, last := costs[0], costs[len(costs)-1]
	if first.schedule > 0 && first.fire > 0 {
		r.set("schedule_growth", float64(last.schedule)/float64(first.schedule))
		r.set("fire_growth", float64(last.fire)/float64(first.fire))
	}
}

// probeSpread is the time in which the tasks of a probe are due.
const probeSpread = 2 * time.Second

// probe schedules and fires some tasks. Callers and consumers use their own queues if they have any.
func (r *run) probe(ctx context.Context, callers, consumers []subject.Caller) (cost, error) {
	f := firing{tasks: r.sizes.Probe, over: probeSpread}
	out := &fired{ledger: newLedger(newIDs(), f.tasks)}
	stop := consumeBy(ctx, consumers, out.got)
	c, err := r.probeTo(ctx, callers, f, out)
	return c, cmp.Or(stop(), err)
}

func (r *run) probeTo(ctx context.Context, callers []subject.Caller, f firing, out *fired) (cost, error) {
	load := &loader{callers: callers} // single tasks: the probe measures the cost of one task
	if err := r.layAhead(ctx, load, f, out); err != nil {
		return cost{}, err
	}
	begun := r.read()
	took, err := r.scheduleLaid(ctx, load, out)
	if err != nil {
		return cost{}, err
	}
	scheduled := r.read()
	if err := loop.SleepUntil(ctx, out.first.Add(-readBefore)); err != nil {
		return cost{}, err
	}
	waited := r.read()
	if err := out.wait(ctx, out.first.Add(f.over+r.sizes.Patience)); err != nil {
		return cost{}, err
	}
	done := r.read()
	p := out.punctuality(nil)
	if p.lost > 0 {
		return cost{}, fmt.Errorf("%d of %d tasks did not arrive", p.lost, f.tasks)
	}
	n := time.Duration(f.tasks)
	return cost{
		schedule: scheduled.since(begun).ServiceCPU / n, fire: done.since(waited).ServiceCPU / n,
		rate: perSecond(f.tasks, took.Elapsed), late: quantileOf(p.lateness, 0.99),
	}, nil
}
