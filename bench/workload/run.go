package workload

import (
	"context"
	"fmt"
	"time"

	"github.com/belfryhq/belfry/bench/figure"
	"github.com/belfryhq/belfry/bench/subject"
	"github.com/belfryhq/belfry/internal/loop"
)

// run is one workload in progress.
type run struct {
	service subject.Service
	sizes   Sizes
	say     func(format string, args ...any)
	opened  []subject.Caller // callers to close before the service stops

	values map[string]float64
	usage  figure.Usage
}

// callers makes n callers that live as long as the run.
func (r *run) callers(ctx context.Context, n int) ([]subject.Caller, error) {
	return r.open(n, func(int) (subject.Caller, error) { return r.service.Caller(ctx) })
}

func (r *run) open(n int, open func(i int) (subject.Caller, error)) ([]subject.Caller, error) {
	callers := make([]subject.Caller, n)
	for i := range callers {
		caller, err := open(i)
		if err != nil {
			return nil, fmt.Errorf("caller %d of %d: %w", i+1, n, err)
		}
		callers[i] = caller
		r.opened = append(r.opened, caller)
	}
	return callers, nil
}

// closeCallers closes all callers. Failures are only reported, because the figures are complete by then.
func (r *run) closeCallers() {
	failed := 0
	for _, caller := range r.opened {
		if err := caller.Close(); err != nil {
			if failed++; failed == 1 {
				r.say("closing a caller: %v", err)
			}
		}
	}
	r.opened = nil
}

// set records a figure.
func (r *run) set(key string, value float64) { r.values[key] = value }

// setLatencies records the median, the 99th percentile and the maximum in milliseconds, under keys with the prefix.
func (r *run) setLatencies(prefix string, sorted []time.Duration) {
	for key, quantile := range map[string]float64{"p50": 0.5, "p99": 0.99, "max": 1} {
		if len(sorted) > 0 {
			r.set(prefix+key, milliseconds(quantileOf(sorted, quantile)))
		}
	}
}

// latencyKinds are the figures of setLatencies.
func latencyKinds(prefix, title string) []figure.Kind {
	return []figure.Kind{
		{Key: prefix + "p50", Title: title + " p50", Unit: "ms"},
		{Key: prefix + "p99", Title: title + " p99", Unit: "ms"},
		{Key: prefix + "max", Title: title + " max", Unit: "ms"},
	}
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// perSecond returns n/d a second; 0 if no time has passed.
func perSecond(n int, d time.Duration) float64 {
	if d <= 0 {
		return 0
	}
	return float64(n) / d.Seconds()
}

// evenly returns the plan of an open loop at a rate a second.
func evenly(rate int) func(i int) time.Duration { return loop.Evenly(float64(rate)) }

// planned returns the planned time of the i-th operation after the first one.
func planned(i, rate int) time.Duration { return evenly(rate)(i) }
