package chaos_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/belfryhq/belfry/chaos/check"
	"github.com/belfryhq/belfry/chaos/siege"
	"github.com/belfryhq/belfry/deploy/local/localtest"
)

const (
	lengthVar = "BELFRY_CHAOS" // long: plays all shards for minutes and holds them to the promised times
	long      = "long"
	seedVar   = "BELFRY_CHAOS_SEED" // a number; default 1
	keepVar   = "BELFRY_CHAOS_KEEP" // a folder that keeps data, logs and histories
)

// TestScenarios plays the scenarios one after the other, because each needs the machine for itself.
func TestScenarios(t *testing.T) {
	localtest.Need(t)
	binary := localtest.Build(t)
	play := func(name string, cfg siege.Config, plan siege.Plan) {
		t.Run(name, func(t *testing.T) {
			cfg.Binary, cfg.Dir, cfg.Limits, cfg.Seed = binary, folder(t, name), limits(), seed(t)
			cfg.Round, cfg.Plan, cfg.Keep = 1, &plan, true
			report, err := siege.Run(t.Context(), cfg)
			if err != nil {
				t.Fatal(err)
			}
			t.Log(report.Markdown())
			if !report.OK() {
				t.Fail()
			}
		})
	}
	if os.Getenv(lengthVar) == long {
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

// limits returns the promised limits in a long run, which has the machine for itself, and stretched ones otherwise.
func limits() check.Limits {
	if os.Getenv(lengthVar) == long {
		return check.DefaultLimits()
	}
	return stretched()
}

// slowness stretches the limits that depend on the machine: `go test ./...` runs other packages beside this one.
const slowness = 2

// stretched returns limits for a machine with other work, and for several faults at once.
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
	if err != nil {
		t.Fatalf("%s: %v", seedVar, err)
	}
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
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}
