package workload

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

// driven is the outcome of a closed loop.
type driven struct {
	done      int
	elapsed   time.Duration   // from the first call to the last answer
	latencies []time.Duration // of all calls, sorted
}

// drive runs a closed loop: each caller calls for the next of n operations as soon as its last call is answered. The
// loop ends after all operations or at the time limit. The first error also ends it.
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

// unlimited is the time limit of a loop that ends after its operations.
const unlimited = time.Duration(1<<63 - 1)

// pace runs an open loop: n operations are planned at a fixed rate from begin on. Each is called at its planned
// instant, or later when a caller becomes free. Latencies count from the planned instants.
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

// meantAfter returns the planned time of the i-th operation after the first one.
func meantAfter(i, rate int) time.Duration {
	return time.Duration(float64(i) / float64(rate) * float64(time.Second))
}
