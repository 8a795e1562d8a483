package workload

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

// driven is what a closed loop came to.
type driven struct {
	done      int
	elapsed   time.Duration   // from the first call to the last answer
	latencies []time.Duration // of all calls, sorted
}

// drive is a closed loop: each caller calls for the next of n operations as soon as it was answered, until all are done
// or the time is up. The first error ends it.
func drive[C any](ctx context.Context, callers []C, n int, limit time.Duration,
	call func(ctx context.Context, caller C, i int) error,
) (driven, error) {
	var next atomic.Int64
	latencies := make([][]time.Duration, len(callers))
	group, ctx := errgroup.WithContext(ctx)
	began := time.Now()
	last := make([]time.Duration, len(callers))
	for k, caller := range callers {
		group.Go(func() error {
			at := time.Since(began)
			for at < limit {
				i := int(next.Add(1)) - 1
				if i >= n {
					return nil
				}
				if err := call(ctx, caller, i); err != nil {
					return err
				}
				answered := time.Since(began)
				latencies[k] = append(latencies[k], answered-at)
				at, last[k] = answered, answered
			}
			return nil
		})
	}
	err := group.Wait()
	all := slices.Concat(latencies...)
	slices.Sort(all)
	return driven{done: len(all), elapsed: slices.Max(last), latencies: all}, err
}

// unlimited is the time of a loop that ends with its operations.
const unlimited = time.Duration(1<<63 - 1)

// pace is an open loop: n operations are meant for instants at a fixed rate from the beginning, and are called then, or
// as soon after as one of the callers is free. Latencies count from the instants that were meant.
func pace[C any](ctx context.Context, callers []C, begin time.Time, n, rate int,
	call func(ctx context.Context, caller C, i int) error,
) (latencies []time.Duration, err error) {
	var next atomic.Int64
	latencies = make([]time.Duration, n)
	group, ctx := errgroup.WithContext(ctx)
	for _, caller := range callers {
		group.Go(func() error {
			for {
				i := int(next.Add(1)) - 1
				if i >= n {
					return nil
				}
				meant := begin.Add(meantAfter(i, rate))
				if err := sleepUntil(ctx, meant); err != nil {
					return err
				}
				if err := call(ctx, caller, i); err != nil {
					return err
				}
				latencies[i] = time.Since(meant)
			}
		})
	}
	return latencies, group.Wait()
}

// meantAfter is when the i-th operation of a rate is meant, counted from the first.
func meantAfter(i, rate int) time.Duration {
	return time.Duration(float64(i) / float64(rate) * float64(time.Second))
}
