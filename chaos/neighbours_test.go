package chaos_test

import (
	"context"
	"testing"
	"time"

	"github.com/belfryhq/belfry/chaos/check"
	"github.com/belfryhq/belfry/chaos/history"
	"github.com/belfryhq/belfry/chaos/siege"
	"github.com/belfryhq/belfry/internal/gated"
)

// The limits beside namespaces that storm, at a quarter of the capacity.
const (
	stormedTimes = 2.0  // p99 of calls and of lateness beside a storm, in those alone
	stormedRate  = 0.9  // rate beside a storm, in that alone
	quotaExcess  = 1.05 // use of a quota, as a multiple of it
	noisyTimes   = 1.5  // p99 of one calm part in that of the other, from which on the machine cannot judge
	// noFiner is the shortest p99 that counts: a shorter one is the scheduling of processes on this machine.
	noFiner = 5 * time.Millisecond
)

// TestNeighboursOfAStorm measures the capacity of three nodes. At a quarter of that load two other namespaces storm,
// with batches without a pause, tasks due at one instant, and receivers that never answer; then leaders are killed, too.
// All acknowledged tasks of the load are delivered, and the storms keep to their quotas. Without the kills, the load
// keeps its rate and its times. The test needs a machine without other work, and does not judge times on another one.
func TestNeighboursOfAStorm(t *testing.T) {
	gated.Need(t, gated.Timed)
	if !gated.Has(gated.Long) {
		t.Skip("measures time, for minutes, on a machine without other work: make long RUN=" + t.Name())
	}
	play := shapes(t)
	capacity := 0
	full := siege.Plan{Name: "as many calls as are answered", Play: func(ctx context.Context, r *siege.Round) error {
		return r.Pause(ctx, 15*time.Second)
	}}
	play("capacity", siege.Config{Plain: true, PerSecond: 10_000, Drain: 3 * time.Minute}, full,
		func(t *testing.T, report *siege.Report) {
			capacity = report.Rounds[0].Rate
			t.Logf("capacity: %d tasks a second", capacity)
		})
	if capacity < 100 {
		t.Fatalf("three nodes deliver %d tasks a second: too few for a claim about a quarter of them", capacity)
	}
	n := &siege.Neighbours{Spell: 30 * time.Second, Rate: float64(capacity) / 4, Most: int64(5 * capacity)}
	quarter := siege.Config{
		Plain: true, PerSecond: capacity / 8, Bulk: capacity / 8, Drain: 3 * time.Minute,
		Faults: []string{history.KillLeader},
	}
	play("storm", quarter, siege.Plan{Name: "neighbours of a storm", Play: n.Play},
		func(t *testing.T, _ *siege.Report) {
			mustKeepQuotas(t, n)
			mustKeepPace(t, n)
		})
}

// mustKeepQuotas checks that each storm reached its quotas, and did not exceed them.
func mustKeepQuotas(t *testing.T, n *siege.Neighbours) {
	t.Helper()
	for _, s := range n.Storms {
		t.Logf("storm of %v (leaders killed: %t): %.0f tasks a second of %.0f, %d refused; %d unfinished of %d, %d refused",
			s.Took.Round(time.Second), s.Killed, s.PerSecond, n.Rate, s.Unrated, s.Most, n.Most, s.Unfit)
		if s.PerSecond > n.Rate*quotaExcess {
			t.Errorf("%.0f tasks a second were accepted, and the quota is %.0f", s.PerSecond, n.Rate)
		}
		if float64(s.Most) > float64(n.Most)*quotaExcess {
			t.Errorf("%d tasks were unfinished, and the quota is %d", s.Most, n.Most)
		}
		if s.Unrated == 0 || s.Unfit == 0 || float64(s.Most) < float64(n.Most)/quotaExcess {
			t.Errorf("the storm did not reach its quotas: nothing was shown")
		}
	}
	if len(n.Storms) != 2 {
		t.Errorf("%d storms instead of two", len(n.Storms))
	}
}

// mustKeepPace compares the load beside a storm with that alone. It does not judge if the two parts alone differ.
func mustKeepPace(t *testing.T, n *siege.Neighbours) {
	t.Helper()
	first, second, beside := n.Alone[0], n.Alone[1], n.Beside
	for name, s := range map[string]check.Spell{"alone": first, "alone again": second, "beside": beside} {
		t.Logf("%s: %.0f tasks a second, calls p99 %v, late p99 %v, %d failed", name, s.PerSecond(),
			s.Calls.Quantile(99), s.Late.Quantile(99), s.Failed)
	}
	if beside.Calls.Count == 0 || beside.Late.Count == 0 || first.Late.Count == 0 || second.Late.Count == 0 {
		t.Fatal("nothing came: nothing was shown")
	}
	calls, noisyCalls := tail(first.Calls, second.Calls)
	late, noisyLate := tail(first.Late, second.Late)
	alone := (first.PerSecond() + second.PerSecond()) / 2
	if noisyCalls || noisyLate || min(first.PerSecond(), second.PerSecond()) < stormedRate*alone {
		t.Skip("NOT TESTED: the pace of a storm's neighbours: NOT JUDGED, the two parts without a storm differ too much")
	}
	if got := beside.Calls.Quantile(99); float64(got) > stormedTimes*float64(calls) {
		t.Errorf("calls p99 %v beside a storm, and %v alone", got, calls)
	}
	if got := beside.Late.Quantile(99); float64(got) > stormedTimes*float64(late) {
		t.Errorf("late p99 %v beside a storm, and %v alone", got, late)
	}
	if got := beside.PerSecond(); got < stormedRate*alone {
		t.Errorf("%.0f tasks a second beside a storm, and %.0f alone", got, alone)
	}
}

// tail returns the longer p99 of two calm parts, and whether they differ so much that the machine is not calm.
func tail(a, b check.Spread) (p99 time.Duration, noisy bool) {
	one, two := max(a.Quantile(99), noFiner), max(b.Quantile(99), noFiner)
	return max(one, two), float64(max(one, two)) > noisyTimes*float64(min(one, two))
}
