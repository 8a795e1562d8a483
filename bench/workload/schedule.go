package workload

import (
	"context"
	"fmt"

	"github.com/belfryhq/belfry/bench/figure"
	"github.com/belfryhq/belfry/bench/subject"
)

// callFigures are those of a closed loop.
func callFigures(rate string) []figure.Kind {
	return append([]figure.Kind{{Key: "rate", Title: rate, Unit: "/s", Higher: true}}, latencyKinds("", "call")...)
}

// setCalls notes the figures of a closed loop whose calls held so many operations in all.
func (r *run) setCalls(d driven, operations int) {
	r.set("rate", perSecond(operations, d.elapsed))
	r.setLatencies("", d.latencies)
}

func schedule(s Sizes) Workload { return scheduleBy("schedule", s.Callers) }

func scheduleMany(s Sizes) Workload { return scheduleBy("schedule-many", s.ManyCallers) }

// scheduleBy is how many single tasks so many callers get acknowledged.
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

// scheduleBatch is how many tasks callers get acknowledged that schedule many in a call.
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
	// A call each for the connections, which is not counted.
	if _, err := load.load(ctx, len(load.callers)*size, farOff(newIDs(), payload)); err != nil {
		return err
	}
	stop := r.meter()
	d, err := load.loadFor(ctx, r.sizes.ScheduleTasks, r.sizes.ScheduleFor, farOff(newIDs(), payload))
	stop()
	if err != nil {
		return err
	}
	done := min(d.done*size, r.sizes.ScheduleTasks) // the last call may be of fewer
	r.setCalls(d, done)
	r.say("%d callers scheduled %d tasks of %d bytes, %d in a call, in %v", len(load.callers), done, r.sizes.Payload,
		size, d.elapsed)
	return nil
}

// batchOf makes the tasks from one number to before another.
func batchOf(task func(int) subject.Task, from, to int) []subject.Task {
	tasks := make([]subject.Task, 0, to-from)
	for i := from; i < to; i++ {
		tasks = append(tasks, task(i))
	}
	return tasks
}
