// Package loop makes calls from a number of concurrent callers, in the two ways that a measurement needs.
//
//	question             way             a call begins
//	how many a second    Closed          as soon as the caller's last one has ended
//	how late             Open            at its planned instant, whether or not earlier ones have ended
//
// In an open loop, a service that stalls cannot hide the waiting time of the calls that it delays: their latencies
// count from the planned instants (no coordinated omission). A planned call begins late only if no caller is free.
package loop

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

// The bounds of a closed loop that ends for another reason.
const (
	AnyNumber = int(^uint(0) >> 1)
	Forever   = time.Duration(1<<63 - 1)
)

// Outcome describes the calls of a closed loop.
type Outcome struct {
	Done      int
	Elapsed   time.Duration   // from the first call to the last answer
	Latencies []time.Duration // of all calls, sorted
}

// Closed makes calls until n of them are made or the time limit has passed. The first error also ends the loop, and is
// returned with the outcome so far. The calls have the numbers from 0 on. Without callers there are none.
func Closed[C any](ctx context.Context, callers []C, n int, limit time.Duration,
	call func(ctx context.Context, caller C, i int) error,
) (Outcome, error) {
	began := time.Now()
	latencies, last := make([][]time.Duration, len(callers)), make([]time.Duration, len(callers))
	err := each(ctx, len(callers), n, func(ctx context.Context, k, i int) (more bool, err error) {
		at := time.Since(began)
		if at >= limit {
			return false, nil
		}
		if err := call(ctx, callers[k], i); err != nil {
			return false, err
		}
		last[k] = time.Since(began)
		latencies[k] = append(latencies[k], last[k]-at)
		return true, nil
	})
	all := slices.Concat(latencies...)
	slices.Sort(all)
	slices.Sort(last)
	o := Outcome{Done: len(all), Latencies: all}
	if len(last) > 0 {
		o.Elapsed = last[len(last)-1]
	}
	return o, err
}

// Open makes n calls, the i-th one at the time at(i) after an instant or as soon as a caller is free. It returns the
// latency of each call from its planned instant. The first error ends the loop.
func Open[C any](ctx context.Context, callers []C, begin time.Time, n int, at func(i int) time.Duration,
	call func(ctx context.Context, caller C, i int) error,
) (latencies []time.Duration, err error) {
	latencies = make([]time.Duration, n)
	err = each(ctx, len(callers), n, func(ctx context.Context, k, i int) (more bool, err error) {
		planned := begin.Add(at(i))
		if err := SleepUntil(ctx, planned); err != nil {
			return false, err
		}
		if err := call(ctx, callers[k], i); err != nil {
			return false, err
		}
		latencies[i] = time.Since(planned)
		return true, nil
	})
	return latencies, err
}

// Evenly returns the plan of an open loop with a fixed rate a second.
func Evenly(rate float64) func(i int) time.Duration {
	return func(i int) time.Duration { return time.Duration(float64(i) / rate * float64(time.Second)) }
}

// each gives the numbers below n to the callers, until a caller needs no more or fails.
func each(ctx context.Context, callers, n int, do func(ctx context.Context, k, i int) (more bool, err error)) error {
	var next atomic.Int64
	group, ctx := errgroup.WithContext(ctx)
	for k := range callers {
		group.Go(func() error {
			for {
				i := int(next.Add(1)) - 1
				if i >= n {
					return nil
				}
				if more, err := do(ctx, k, i); !more {
					return err
				}
			}
		})
	}
	return group.Wait()
}

// SleepUntil returns at an instant, or with the context's error if the context ends before.
func SleepUntil(ctx context.Context, at time.Time) error {
	if time.Until(at) <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(time.Until(at))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
