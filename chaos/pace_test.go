package chaos_test

import (
	"context"
	"testing"
	"time"

	"github.com/belfryhq/belfry/chaos/check"
	"github.com/belfryhq/belfry/chaos/faults"
	"github.com/belfryhq/belfry/chaos/siege"
	"github.com/belfryhq/belfry/internal/gated"
)

// The limits while a cluster changes its shape, at a quarter of its capacity.
const (
	plannedLate = 50 * time.Millisecond  // lateness of 99 of 100 tasks
	plannedCall = 250 * time.Millisecond // duration of any call that schedules a task
)

// TestPlannedChangesAreNotFelt measures the capacity of five nodes: the tasks that they take one by one and deliver in
// a second. At a quarter of that load, a cluster of one node grows to five and shrinks again, and three shards become
// twelve. Tasks stay on time and calls short throughout. The test needs a machine without other work.
func TestPlannedChangesAreNotFelt(t *testing.T) {
	gated.Need(t, gated.Timed)
	if !gated.Has(gated.Long) {
		t.Skip("measures time, for minutes, on a machine without other work: make long RUN=" + t.Name())
	}
	play := shapes(t)
	capacity := 0
	full := siege.Plan{Name: "as many calls as are answered", Play: func(ctx context.Context, r *siege.Round) error {
		return r.Pause(ctx, 20*time.Second)
	}}
	measure := siege.Config{Nodes: 5, Shards: 12, Plain: true, PerSecond: 10_000, Drain: 3 * time.Minute}
	play("capacity", measure, full, func(t *testing.T, report *siege.Report) {
		capacity = report.Rounds[0].Rate
		t.Logf("capacity: %d tasks a second", capacity)
	})
	if capacity < 100 {
		t.Fatalf("five nodes deliver %d tasks a second: too few for a claim about a quarter of them", capacity)
	}
	quarter := siege.Config{Plain: true, PerSecond: capacity / 8, Bulk: capacity / 8, Drain: 3 * time.Minute}
	grows := quarter
	grows.Nodes, grows.Spare, grows.Shards = 1, 4, 12
	play("nodes", grows, siege.Plan{Name: "1, 3, 5 and 3 nodes", Play: growAndShrink},
		func(t *testing.T, report *siege.Report) {
			struck(faults.NodeJoins, 3)(t, report)
			mustBePunctual(t, report)
		})
	play("shards", quarter, siege.Plan{Name: "3, 5 and 12 shards", Play: splitShards},
		func(t *testing.T, report *siege.Report) {
			struck(faults.MoreShards, 1)(t, report)
			mustBePunctual(t, report)
		})
}

// mustBePunctual holds the time of planned changes against the limits.
func mustBePunctual(t *testing.T, report *siege.Report) {
	t.Helper()
	planned := tollOf(report, check.PlannedAlone)
	t.Logf("planned changes alone: %d pushed, %d pulled, %d calls, %d of them refused; pushed late p99 %v, at most %v; "+
		"pulled late p99 %v, at most %v; calls p99 %v, at most %v", planned.Late.Count, planned.Pulled.Count,
		planned.Calls.Count, planned.Refused, planned.Late.Quantile(99), planned.Late.Max, planned.Pulled.Quantile(99),
		planned.Pulled.Max, planned.Calls.Quantile(99), planned.Calls.Max)
	if planned.Late.Count == 0 || planned.Pulled.Count == 0 || planned.Calls.Count == 0 {
		t.Fatal("nothing came during planned changes: nothing was shown")
	}
	if late := max(planned.Late.Quantile(99), planned.Pulled.Quantile(99)); late > plannedLate {
		t.Errorf("one in a hundred tasks came %v late or later, the limit is %v", late, plannedLate)
	}
	if planned.Calls.Max > plannedCall {
		t.Errorf("a call took %v, the limit is %v", planned.Calls.Max, plannedCall)
	}
}

// tollOf returns the toll of a kind of faults over all rounds.
func tollOf(report *siege.Report, kind string) check.Toll {
	sum := check.Toll{Kind: kind}
	for _, toll := range report.Tolls {
		if toll.Kind == kind {
			sum = sum.Plus(toll)
		}
	}
	return sum
}
