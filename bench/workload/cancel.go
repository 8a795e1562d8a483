package workload

import (
	"context"
	"fmt"

	"github.com/belfryhq/belfry/bench/subject"
	"github.com/belfryhq/belfry/internal/loop"
)

// cancel measures how many tasks a second the callers cancel with one task a call.
func cancel(s Sizes) Workload {
	return Workload{
		Name: "cancel", Title: fmt.Sprintf("cancel, %d callers", s.Callers), Figures: callFigures("cancelled a second"),
		run: func(ctx context.Context, r *run) error { return r.cancel(ctx, 1, cancelOne) },
	}
}

// cancelBatch measures how many tasks a second the callers cancel with many tasks a call.
func cancelBatch(s Sizes) Workload {
	return Workload{
		Name: "cancel-batch", Title: fmt.Sprintf("cancel, %d callers, batches of %d", s.Callers, s.Batch),
		Figures: callFigures("cancelled a second"),
		run:     func(ctx context.Context, r *run) error { return r.cancel(ctx, r.sizes.Batch, cancelMany) },
	}
}

type cancelling func(ctx context.Context, c subject.Caller, ids []string) error

func cancelOne(ctx context.Context, c subject.Caller, ids []string) error {
	canceller, err := able[subject.Canceller](c, "cancel")
	if err != nil {
		return err
	}
	return canceller.Cancel(ctx, ids[0])
}

func cancelMany(ctx context.Context, c subject.Caller, ids []string) error {
	canceller, err := able[subject.BatchCanceller](c, "cancel by batches")
	if err != nil {
		return err
	}
	return canceller.CancelBatch(ctx, ids)
}

func (r *run) cancel(ctx context.Context, size int, cancel cancelling) error {
	load, err := r.loader(ctx)
	if err != nil {
		return err
	}
	// A first round finds missing abilities before many tasks are scheduled. Its cancels do not count.
	extra := len(load.callers) * size
	tasks, n := newIDs(), r.sizes.CancelTasks
	if _, err := load.load(ctx, extra, farOff(tasks, newPayload(r.sizes.Payload))); err != nil {
		return err
	}
	if _, err := r.cancelAll(ctx, load.callers, tasks, extra, size, cancel); err != nil {
		return err
	}
	tasks = newIDs()
	if _, err := load.load(ctx, n, farOff(tasks, newPayload(r.sizes.Payload))); err != nil {
		return err
	}
	stop := r.meter()
	d, err := r.cancelAll(ctx, load.callers, tasks, n, size, cancel)
	stop()
	if err != nil {
		return err
	}
	r.setCalls(d, n)
	r.say("%d callers cancelled %d tasks, %d in a call, in %v", len(load.callers), n, size, d.Elapsed)
	return nil
}

func (r *run) cancelAll(
	ctx context.Context, callers []subject.Caller, tasks ids, n, size int, cancel cancelling,
) (loop.Outcome, error) {
	calls := (n + size - 1) / size
	return loop.Closed(ctx, callers, calls, loop.Forever, func(ctx context.Context, c subject.Caller, i int) error {
		var names []string
		for k := i * size; k < min(n, (i+1)*size); k++ {
			names = append(names, tasks.id(k))
		}
		return cancel(ctx, c, names)
	})
}
