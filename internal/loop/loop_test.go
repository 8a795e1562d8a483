package loop

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/belfryhq/belfry/internal/assert"
)

// callFor returns a call that lasts for some time.
func callFor(d time.Duration) func(context.Context, struct{}, int) error {
	return func(ctx context.Context, _ struct{}, _ int) error { return SleepUntil(ctx, time.Now().Add(d)) }
}

// A closed loop makes each call once, and a caller calls again as soon as it is answered.
func TestClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var made [10]atomic.Int64
		got, err := Closed(t.Context(), make([]struct{}, 4), len(made), Forever,
			func(ctx context.Context, c struct{}, i int) error {
				made[i].Add(1)
				return callFor(time.Second)(ctx, c, i)
			})
		if err != nil || got.Done != 10 || got.Elapsed != 3*time.Second || slices.Max(got.Latencies) != time.Second {
			t.Errorf("%+v, %v", got, err)
		}
		for i := range made {
			assert.Equal(t, made[i].Load(), 1, "call %d was made N times", i)
		}
	})
}

// A closed loop without callers makes no call.
func TestClosedWithoutCallers(t *testing.T) {
	got, err := Closed(t.Context(), nil, 3, Forever, callFor(0))
	if err != nil || got.Done != 0 || got.Elapsed != 0 || len(got.Latencies) != 0 {
		t.Errorf("%+v, %v", got, err)
	}
}

// No call begins after the time limit. The calls under way are answered and count.
func TestClosedEndsAtItsLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		got, err := Closed(t.Context(), make([]struct{}, 2), AnyNumber, 2500*time.Millisecond, callFor(time.Second))
		if err != nil || got.Done != 6 || got.Elapsed != 3*time.Second {
			t.Errorf("%+v, %v", got, err)
		}
	})
}

// The first error ends the other callers too.
func TestClosedEndsWithAnError(t *testing.T) {
	failed := errors.New("failed")
	synctest.Test(t, func(t *testing.T) {
		got, err := Closed(t.Context(), make([]struct{}, 3), AnyNumber, Forever,
			func(ctx context.Context, c struct{}, i int) error {
				if i == 4 {
					return failed
				}
				return callFor(time.Second)(ctx, c, i)
			})
		if !errors.Is(err, failed) || got.Done != 3 {
			t.Errorf("%+v, %v", got, err)
		}
	})
}

// A stall of the service counts in all calls that it delays: their latencies count from the planned instants.
func TestOpenCountsFromThePlan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now().Add(time.Second)
		got, err := Open(t.Context(), make([]struct{}, 1), begin, 4, Evenly(10),
			func(ctx context.Context, c struct{}, i int) error {
				if i == 1 {
					return callFor(350*time.Millisecond)(ctx, c, i)
				}
				return nil
			})
		want := []time.Duration{0, 350 * time.Millisecond, 250 * time.Millisecond, 150 * time.Millisecond}
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%v, %v, want %v", got, err, want)
		}
	})
}

func TestSleepUntilEndsWithTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		for _, at := range []time.Duration{time.Hour, -time.Hour} {
			assert.ErrorIs(t, SleepUntil(ctx, time.Now().Add(at)), context.DeadlineExceeded, "%v", at)
		}
		assert.Equal(t, SleepUntil(t.Context(), time.Now().Add(-time.Hour)), nil)
	})
}
