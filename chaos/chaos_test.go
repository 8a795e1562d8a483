package chaos_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/belfryhq/belfry/chaos/check"
	"github.com/belfryhq/belfry/chaos/history"
	"github.com/belfryhq/belfry/chaos/siege"
	"github.com/belfryhq/belfry/deploy/local/localtest"
	"github.com/belfryhq/belfry/internal/assert"
	"github.com/belfryhq/belfry/internal/gated"
)

const (
	seedVar = "BELFRY_CHAOS_SEED" // a number; default 1
	keepVar = "BELFRY_CHAOS_KEEP" // a folder that keeps data, logs and histories
)

// timeless are the invariants whose checks compare instants of the run with each other, and with no limit on time. The
// last one is that no node ends by itself, panics, or races.
var timeless = []string{"1", "2", "3", "4", "8", "11", "14", "+"}

// TestKilledNodesLoseNothing plays the cluster of real processes of `go test ./...`. Under load it kills the leader of
// a shard, and then all nodes at once. The test judges no times: the simulation does, and TestScenarios.
func TestKilledNodesLoseNothing(t *testing.T) {
	localtest.Need(t)
	t.Parallel()
	play := func(ctx context.Context, r *siege.Round) error {
		if err := strike(ctx, r, history.KillLeader, deadFor, 1); err != nil {
			return err
		}
		return strike(ctx, r, history.KillAll, time.Millisecond, 0)
	}
	plan := siege.Plan{Name: "kill -9 of a leader, and of all nodes", Play: play}
	report, err := siege.Run(t.Context(), siege.Config{
		Binary: localtest.Build(t), Dir: folder(t, "killed"), Limits: check.Timeless(), Seed: seed(t), Round: 1, Plan: &plan,
		PerSecond: 40, MaxDelay: time.Second, Sample: 100, Drain: 4 * time.Minute, Keep: true,
	})
	assert.NoError(t, err)
	t.Log(report.Markdown())
	for _, f := range report.Rounds[0].Findings {
		if slices.Contains(timeless, f.Invariant) && f.Broken() {
			t.Errorf("invariant %s, %s, is broken", f.Invariant, f.Promise)
		}
	}
	assert.Equal(t, report.Outcome("1"), check.Held, "whether acknowledged tasks are lost")
	for _, kind := range []string{history.KillLeader, history.KillAll} {
		struck(kind, 1)(t, report)
	}
}

// TestScenarios plays the scenarios one after the other, because each needs the machine for itself.
func TestScenarios(t *testing.T) {
	gated.Need(t, gated.Real)
	localtest.Need(t)
	binary := localtest.Build(t)
	play := func(name string, cfg siege.Config, plan siege.Plan) {
		t.Run(name, func(t *testing.T) {
			cfg.Binary, cfg.Dir, cfg.Limits, cfg.Seed = binary, folder(t, name), limits(), seed(t)
			cfg.Round, cfg.Plan, cfg.Keep = 1, &plan, true
			report, err := siege.Run(t.Context(), cfg)
			assert.NoError(t, err)
			t.Log(report.Markdown())
			if !report.OK() {
				t.Fail()
			}
		})
	}
	if gated.Has(gated.Long) {
		all := siege.Config{Shards: 12, PerSecond: 300, MaxDelay: 10 * time.Second, Drain: 3 * time.Minute}
		play("kill", all, killLeaders())
		play("pause", all, pauseLeaders(0))
		play("all", all, killEverything(5))
		play("burst", all, killEverythingAfter(100_000, 30*time.Second))
		return
	}
	short := siege.Config{Sample: 500, MaxDelay: 2 * time.Second}
	play("under load", short, inTurn(killLeaders(), pauseLeaders(1), killEverything(1)))
	play("burst", short, killEverythingAfter(5_000, 2*time.Second))
}

// limits returns the limits on times if they are judged: the promised ones in a long run, and stretched ones otherwise.
func limits() check.Limits {
	switch {
	case !gated.Has(gated.Timed):
		return check.Timeless()
	case gated.Has(gated.Long):
		return check.DefaultLimits()
	}
	return stretched()
}

// mild returns the limits of a run with several faults at once, which are stretched if times are judged.
func mild() check.Limits {
	if gated.Has(gated.Timed) {
		return stretched()
	}
	return check.Timeless()
}

// slowness stretches the limits that depend on the machine.
const slowness = 2

// stretched returns limits for several faults at once, and for a machine with a little other work.
func stretched() check.Limits {
	l := check.DefaultLimits()
	l.Failover *= slowness
	l.Settle *= slowness
	l.Tail *= slowness
	l.Recover *= slowness
	l.FirstFire *= slowness
	return l
}

func seed(t *testing.T) uint64 {
	t.Helper()
	text := os.Getenv(seedVar)
	if text == "" {
		return 1
	}
	n, err := strconv.ParseUint(text, 10, 64)
	assert.NoError(t, err, "%s", seedVar)
	return n
}

// folder returns a folder for the run. The folder is removed with the test unless BELFRY_CHAOS_KEEP is set.
func folder(t *testing.T, name string) string {
	t.Helper()
	keep := os.Getenv(keepVar)
	if keep == "" {
		return t.TempDir()
	}
	dir := filepath.Join(keep, fmt.Sprintf("%s-%s", name, time.Now().Format("150405")))
	assert.NoError(t, os.MkdirAll(dir, 0o755))
	return dir
}
