package workload

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/belfryhq/belfry/bench/subject"
	"github.com/belfryhq/belfry/internal/loop"
)

// writes are tasks that are scheduled at a fixed rate through a failure. Each write is repeated until it is
// acknowledged.
type writes struct {
	begin     time.Time
	rate      int
	latencies []time.Duration // by number; from the planned instants
	failures  atomic.Int64
}

// writeTry is the time limit of one try.
const writeTry = 5 * time.Second

// keepOn writes at the fixed rate for FailoverFor.
func (w *writes) keepOn(ctx context.Context, r *run) error {
	writers := make([]*writer, r.sizes.Callers)
	for i := range writers {
		writers[i] = &writer{service: r.service, failures: &w.failures}
		defer writers[i].drop()
	}
	task := farOff(newIDs(), newPayload(r.sizes.Payload))
	n := int(float64(w.rate) * r.sizes.FailoverFor.Seconds())
	var err error
	w.latencies, err = loop.Open(ctx, writers, w.begin, n, evenly(w.rate),
		func(ctx context.Context, c *writer, i int) error { return c.write(ctx, task(i)) })
	return err
}

// longestSince returns the longest latency of the writes that were planned after an instant.
func (w *writes) longestSince(at time.Time) time.Duration {
	var longest time.Duration
	for i, latency := range w.latencies {
		if w.begin.Add(planned(i, w.rate)).After(at) {
			longest = max(longest, latency)
		}
	}
	return longest
}

// writer is a caller that is replaced after a failed call, as a program does after a broken connection.
type writer struct {
	service  subject.Service
	caller   subject.Caller // nil: to be made
	failures *atomic.Int64
}

// write repeats the call until the task is acknowledged.
func (w *writer) write(ctx context.Context, task subject.Task) error {
	for {
		err := w.try(ctx, task)
		if err == nil {
			return nil
		}
		w.failures.Add(1)
		w.drop()
		if paused := loop.SleepUntil(ctx, time.Now().Add(retryPause)); paused != nil {
			return errors.Join(paused, err)
		}
	}
}

func (w *writer) try(ctx context.Context, task subject.Task) (err error) {
	ctx, cancel := context.WithTimeout(ctx, writeTry)
	defer cancel()
	if w.caller == nil {
		if w.caller, err = w.service.Caller(ctx); err != nil {
			w.caller = nil
			return err
		}
	}
	return w.caller.Schedule(ctx, task)
}

// drop closes the caller. It ignores the error, which is expected of a broken caller.
func (w *writer) drop() {
	if w.caller != nil {
		_ = w.caller.Close()
		w.caller = nil
	}
}
