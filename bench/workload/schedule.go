package workload

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/belfryhq/belfry/bench/subject"
	"github.com/belfryhq/belfry/internal/loop"
)

// callFigures are the figures of a closed loop.
func callFigures(rate string) []Figure {
	return append([]Figure{{Key: "rate", Title: rate, Unit: "/s", Higher: true}, processor},
		latencyKinds("", "call")...)
}

// setCalls records the figures of a closed loop with a number of operations in all. The meter has stopped.
func (r *run) setCalls(d loop.Outcome, operations int) {
	r.set("rate", perSecond(operations, d.Elapsed))
	r.setProcessor(operations)
	r.setLatencies("", d.Latencies)
}

// schedule measures how many tasks a second the callers schedule with one task a call.
func schedule(name string, callers int) Workload {
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
		Figures: callFigures("acknowledged a second"), needs: []need{toSchedule},
		run: func(ctx context.Context, r *run) error {
			load, err := r.loader(ctx)
			if err != nil {
				return err
			}
			return r.schedule(ctx, load)
		},
	}
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

// loader schedules many tasks in preparation of a measurement, in the fastest way of the subject.
type loader struct {
	callers []subject.Caller
	batch   int // tasks a call; 0: the subject takes single tasks
}

func (r *run) loader(ctx context.Context) (*loader, error) {
	callers, err := r.callers(ctx, r.sizes.Callers)
	if err != nil {
		return nil, err
	}
	l := &loader{callers: callers}
	if _, ok := callers[0].(subject.BatchScheduler); ok {
		l.batch = r.sizes.Batch
	}
	return l, nil
}

// load schedules n tasks and returns when all are acknowledged.
func (l *loader) load(ctx context.Context, n int, task func(i int) subject.Task) (loop.Outcome, error) {
	return l.loadFor(ctx, n, loop.Forever, task)
}

// loadFor works as load, and also ends at the time limit.
func (l *loader) loadFor(
	ctx context.Context, n int, limit time.Duration, task func(i int) subject.Task,
) (loop.Outcome, error) {
	if l.batch == 0 {
		return loop.Closed(ctx, l.callers, n, limit, func(ctx context.Context, c subject.Caller, i int) error {
			return c.Schedule(ctx, task(i))
		})
	}
	calls := (n + l.batch - 1) / l.batch
	return loop.Closed(ctx, l.callers, calls, limit, func(ctx context.Context, c subject.Caller, i int) error {
		return c.(subject.BatchScheduler).ScheduleBatch(ctx, batchOf(task, i*l.batch, min(n, (i+1)*l.batch)))
	})
}

// leadSample is the divisor of the sample by which lead estimates the duration of scheduling: one task in leadSample.
const leadSample = 50

// lead returns how long before the first due instant scheduling must begin: a second, plus twice the estimate from a
// sample of far-off tasks.
func (l *loader) lead(ctx context.Context, n int, payload []byte) (time.Duration, error) {
	sample := n/leadSample + 2*len(l.callers)*max(1, l.batch)
	sample = min(sample, n)
	took, err := l.load(ctx, sample, farOff(newIDs(), payload))
	if err != nil {
		return 0, fmt.Errorf("scheduling a sample: %w", err)
	}
	return 2*took.Elapsed*time.Duration(n)/time.Duration(sample) + time.Second, nil
}

// errLoadTooSlow means that the first task was due before all tasks were scheduled.
var errLoadTooSlow = errors.New("not all tasks were scheduled when the first was due")

// cancel measures how many tasks a second the callers cancel with one task a call.
func cancel(s Sizes) Workload {
	return Workload{
		Name: "cancel", Title: fmt.Sprintf("cancel, %d callers", s.Callers), Figures: callFigures("cancelled a second"),
		needs: []need{toCancel},
		run: func(ctx context.Context, r *run) error {
			return r.change(ctx, "cancelled", 1, func(ctx context.Context, c subject.Caller, ids []string) error {
				return c.(subject.Canceller).Cancel(ctx, ids[0])
			})
		},
	}
}

// cancelBatch measures how many tasks a second the callers cancel with many tasks a call.
func cancelBatch(s Sizes) Workload {
	return Workload{
		Name: "cancel-batch", Title: fmt.Sprintf("cancel, %d callers, batches of %d", s.Callers, s.Batch),
		Figures: callFigures("cancelled a second"), needs: []need{toCancelMany},
		run: func(ctx context.Context, r *run) error {
			return r.change(ctx, "cancelled", r.sizes.Batch, func(ctx context.Context, c subject.Caller, ids []string) error {
				return c.(subject.BatchCanceller).CancelBatch(ctx, ids)
			})
		},
	}
}

// touchCalls measures how many tasks a second the callers touch with one task a call. The tasks are far off.
func touchCalls(s Sizes) Workload {
	return Workload{
		Name: "touch-calls", Title: fmt.Sprintf("touch, %d callers", s.Callers), Figures: callFigures("touched a second"),
		needs: []need{toTouch},
		run: func(ctx context.Context, r *run) error {
			due := time.Now().Truncate(time.Millisecond).Add(48 * time.Hour)
			return r.change(ctx, "touched", 1, func(ctx context.Context, c subject.Caller, ids []string) error {
				return c.(subject.Toucher).Touch(ctx, ids[0], due)
			})
		},
	}
}

// changing is one call that cancels or touches tasks.
type changing func(ctx context.Context, c subject.Caller, ids []string) error

// change measures the rate at which the callers change tasks. did is the verb of a call in the past tense.
func (r *run) change(ctx context.Context, did string, size int, change changing) error {
	load, err := r.loader(ctx)
	if err != nil {
		return err
	}
	// The changes of a first round do not count. They make connections and clients ready.
	extra := len(load.callers) * size
	tasks, n := newIDs(), r.sizes.CancelTasks
	if _, err := load.load(ctx, extra, farOff(tasks, newPayload(r.sizes.Payload))); err != nil {
		return err
	}
	if _, err := changeAll(ctx, load.callers, tasks, extra, size, change); err != nil {
		return err
	}
	tasks = newIDs()
	if _, err := load.load(ctx, n, farOff(tasks, newPayload(r.sizes.Payload))); err != nil {
		return err
	}
	stop := r.meter()
	d, err := changeAll(ctx, load.callers, tasks, n, size, change)
	stop()
	if err != nil {
		return err
	}
	r.setCalls(d, n)
	r.say("%d callers %s %d tasks, %d in a call, in %v", len(load.callers), did, n, size, d.Elapsed)
	return nil
}

func changeAll(
	ctx context.Context, callers []subject.Caller, tasks ids, n, size int, change changing,
) (loop.Outcome, error) {
	calls := (n + size - 1) / size
	return loop.Closed(ctx, callers, calls, loop.Forever, func(ctx context.Context, c subject.Caller, i int) error {
		var names []string
		for k := i * size; k < min(n, (i+1)*size); k++ {
			names = append(names, tasks.id(k))
		}
		return change(ctx, c, names)
	})
}
