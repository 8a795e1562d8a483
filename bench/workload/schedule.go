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
			return r.scheduleSingly(ctx, callers)
		},
	}
}

func (r *run) scheduleSingly(ctx context.Context, n int) error {
	callers, err := r.callers(ctx, n)
	if err != nil {
		return err
	}
	payload := newPayload(r.sizes.Payload)
	schedule := func(task func(int) subject.Task) func(context.Context, subject.Caller, int) error {
		return func(ctx context.Context, c subject.Caller, i int) error { return c.Schedule(ctx, task(i)) }
	}
	// A call each for the connections, which is not counted.
	if _, err := drive(ctx, callers, n, unlimited, schedule(farOff(newIDs(), payload))); err != nil {
		return err
	}
	stop := r.meter()
	d, err := drive(ctx, callers, r.sizes.ScheduleTasks, r.sizes.ScheduleFor, schedule(farOff(newIDs(), payload)))
	stop()
	if err != nil {
		return err
	}
	r.setCalls(d, d.done)
	r.say("%d callers scheduled %d tasks of %d bytes in %v", n, d.done, r.sizes.Payload, d.elapsed)
	return nil
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
	callers, err := r.callers(ctx, r.sizes.Callers)
	if err != nil {
		return err
	}
	if _, err := able[subject.BatchScheduler](callers[0], "schedule by batches"); err != nil {
		return err
	}
	payload, size := newPayload(r.sizes.Payload), r.sizes.Batch
	schedule := func(task func(int) subject.Task) func(context.Context, subject.Caller, int) error {
		return func(ctx context.Context, c subject.Caller, i int) error {
			return c.(subject.BatchScheduler).ScheduleBatch(ctx, batchOf(task, i*size, (i+1)*size))
		}
	}
	if _, err := drive(ctx, callers, len(callers), unlimited, schedule(farOff(newIDs(), payload))); err != nil {
		return err
	}
	stop := r.meter()
	d, err := drive(ctx, callers, r.sizes.ScheduleTasks/size, r.sizes.ScheduleFor, schedule(farOff(newIDs(), payload)))
	stop()
	if err != nil {
		return err
	}
	r.setCalls(d, d.done*size)
	r.say("%d callers scheduled %d tasks by batches of %d in %v", len(callers), d.done*size, size, d.elapsed)
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
