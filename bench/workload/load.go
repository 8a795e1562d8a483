package workload

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/belfryhq/belfry/bench/subject"
	"github.com/belfryhq/belfry/internal/loop"
)

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
