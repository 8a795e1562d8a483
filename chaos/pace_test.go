package chaos_test

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/belfryhq/belfry/chaos/check"
	"github.com/belfryhq/belfry/chaos/faults"
	"github.com/belfryhq/belfry/chaos/history"
	"github.com/belfryhq/belfry/chaos/siege"
	"github.com/belfryhq/belfry/deploy/local/localtest"
)

// The limits while a cluster changes its shape, at a quarter of its capacity.
const (
	plannedLate = 50 * time.Millisecond  // lateness of 99 of 100 tasks
	plannedCall = 250 * time.Millisecond // duration of any call that schedules a task
)

// TestPlannedChangesAreNotFelt measures the capacity of five nodes: the tasks that they take one by one and deliver in
// a second. Then a cluster of one grows to five nodes and shrinks again at a quarter of that load. Tasks stay on time
// and calls short throughout. The test needs a machine without other work.
func TestPlannedChangesAreNotFelt(t *testing.T) {
	if os.Getenv(lengthVar) != long {
		t.Skip("measures time, for minutes, on a machine without other work: make siege-pace")
	}
	binary := localtest.Build(t, "chaos")
	play := func(t *testing.T, name string, cfg siege.Config) *siege.Report {
		t.Helper()
		cfg.Binary, cfg.Dir, cfg.Seed, cfg.Shards = binary, folder(t, name), seed(t), 12
		cfg.Round, cfg.Plain, cfg.Drain = 1, true, 3*time.Minute
		cfg.NoNetwork, cfg.NoDisks, cfg.NoClocks, cfg.NoGossip, cfg.NoMemory = true, true, true, true, true
		report, err := siege.Run(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		t.Log(report.Markdown())
		if !report.OK() {
			t.Fatal("an invariant was broken")
		}
		return report
	}
	full := siege.Plan{Name: "as many calls as are answered", Play: func(ctx context.Context, r *siege.Round) error {
		return r.Pause(ctx, 20*time.Second)
	}}
	capacity := play(t, "capacity", siege.Config{Nodes: 5, Plan: &full, PerSecond: 10_000}).Rounds[0].Rate
	t.Logf("capacity: %d tasks a second", capacity)
	if capacity < 100 {
		t.Fatalf("five nodes deliver %d tasks a second: too few for a claim about a quarter of them", capacity)
	}
	changes := siege.Plan{Name: "1, 3, 5 and 3 nodes", Play: siege.GrowAndShrink}
	report := play(t, "quarter", siege.Config{
		Nodes: 1, Spare: 4, Plan: &changes, PerSecond: capacity / 8, Bulk: capacity / 8,
		Faults: []string{"shape", history.KillLeader, faults.KillAny},
	})
	if n := struckBy(report, faults.NodeJoins); n < 3 {
		t.Errorf("nodes joined %d times: nothing was shown", n)
	}
	planned := tollOf(report, check.PlannedAlone)
	t.Logf("planned changes alone: %d pushed, %d pulled, %d calls; pushed late p99 %v, at most %v; pulled late p99 %v, "+
		"at most %v; calls at most %v", planned.Late.Count, planned.Pulled.Count, planned.Calls.Count,
		planned.Late.Quantile(99), planned.Late.Max, planned.Pulled.Quantile(99), planned.Pulled.Max, planned.Calls.Max)
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
