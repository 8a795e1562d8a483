package workload

import (
	"context"
	"fmt"

	"github.com/belfryhq/belfry/bench/figure"
	"github.com/belfryhq/belfry/bench/subject"
	"github.com/belfryhq/belfry/internal/loop"
)

// callFigures are the figures of a closed loop.
func callFigures(rate string) []figure.Kind {
	return append([]figure.Kind{{Key: "rate", Title: rate, Unit: "/s", Higher: true}}, latencyKinds("", "call")...)
}

// setCalls records the figures of a closed loop with a number of operations in all.
func (r *run) setCalls(d loop.Outcome, operations int) {
	r.set("rate", perSecond(operations, d.Elapsed))
	r.setLatencies("", d.Latencies)
}

func schedule(s Sizes) Workload { return scheduleBy("schedule", s.Callers) }

func scheduleMany(s Sizes) Workload { return scheduleBy("schedule-many", s.ManyCallers) }

// scheduleBy measures how many tasks a second the callers schedule with one task a call.
func scheduleBy(name string, callers int) Workload {
	return Workload{
		Name: name, Title: fmt.Sprintf("%d callers", callers), Figures: callFigures("acknowledged a second"),
		run: func(ctx context.Context, r *run) error {
			callers, err := r.callers(ctx, callers)
			if err != nil {
				return err
			}
			return r.schedule(ctx, &loader{callers: callers})
		},
	}
}

// scheduleBatch measures how many tasks a second the callers schedule with many tasks a call.
func scheduleBatch(s Sizes) Workload {
	return Workload{
		Name: "schedule-batch", Title: fmt.Sprintf("%d callers, batches of %d", s.Callers, s.Batch),
		Figures: callFigures("acknowledged a second"),
		run:     scheduleInBatches,
	}
}

func scheduleInBatches(ctx context.Context, r *run) error {
	load, err := r.loader(ctx)
	if err != nil {
		return err
	}
	if _, err := able[subject.BatchScheduler](load.callers[0], "schedule by batches"); err != nil {
		return err
	}
	return r.schedule(ctx, load)
}

func (r *run) schedule(ctx context.Context, load *loader) error {
	payload, size := newPayload(r.sizes.Payload), max(1, load.batch)
	// One uncounted call for each caller opens the connections.
	if _, err := load.load(ctx, len(load.callers)*size, farOff(newIDs(), payload)); err != nil {
		return err
	}
	stop := r.meter()
	d, err := load.loadFor(ctx, r.sizes.ScheduleTasks, r.sizes.ScheduleFor, farOff(newIDs(), payload))
	stop()
	if err != nil {
		return err
	}
	done := min(d.Done*size, r.sizes.ScheduleTasks) // the last call may hold fewer
	r.setCalls(d, done)
	r.say("%d callers scheduled %d tasks of %d bytes, %d in a call, in %v", len(load.callers), done, r.sizes.Payload,
		size, d.Elapsed)
	return nil
}

// batchOf returns the tasks with the numbers from (inclusive) to to (exclusive).
func batchOf(task func(int) subject.Task, from, to int) []subject.Task {
	tasks := make([]subject.Task, 0, to-from)
	for i := from; i < to; i++ {
		tasks = append(tasks, task(i))
	}
	return tasks
}
