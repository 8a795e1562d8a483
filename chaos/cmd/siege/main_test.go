package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/belfryhq/belfry/chaos/check"
	"github.com/belfryhq/belfry/chaos/siege"
	"github.com/belfryhq/belfry/internal/assert"
)

// A replay gets all given flags that change its choices or its load.
func TestFlagsOfAReplay(t *testing.T) {
	given := []string{
		"--for=1h", "--rounds=9", "--seed=7", "--nodes=5", "--shards=12", "--faults=disk", "--dir=/tmp/x", "--keep",
		"--rate=300", "--bulk=0", "--strikers=5", "--strike=1m", "--snapshots=16384,4", "--log-store=boltdb",
		"--no-network", "--no-disks", "--no-clocks", "--no-gossip", "--no-memory", "--race", "--soak", "--binary=/tmp/belfry",
	}
	want := []string{
		"--rate=300", "--bulk=0", "--strikers=5", "--strike=1m0s", "--snapshots=16384,4", "--log-store=boltdb",
		"--no-network", "--no-disks", "--no-clocks", "--no-gossip", "--no-memory", "--race", "--soak", "--binary=/tmp/belfry",
	}
	c := command()
	assert.NoError(t, c.ParseFlags(given))
	got := again(c.Flags())
	slices.Sort(got)
	slices.Sort(want)
	assert.EqualSlices(t, got, want)
	c = command()
	assert.NoError(t, c.ParseFlags([]string{"--seed=7"}))
	if got := again(c.Flags()); len(got) != 0 {
		t.Errorf("of defaults: %s", strings.Join(got, " "))
	}
}

// The findings decide the exit status. A breach outranks an invariant that was not exercised.
func TestExitStatus(t *testing.T) {
	var idle, seen check.Finding
	idle.Invariant, seen.Invariant = "6", "1"
	idle.Observe(0, "leaders killed alone")
	seen.Observe(1, "tasks")
	findings := func(all ...check.Finding) siege.Sum { return siege.Sum{Findings: all} }
	for _, tt := range []struct {
		name   string
		report siege.Report
		want   int
	}{
		{"held", siege.Report{Thorough: true, Sum: findings(seen)}, 0},
		{"not exercised", siege.Report{Thorough: true, Sum: findings(idle, seen)}, statusIdle},
		{"not exercised by a short siege", siege.Report{Sum: findings(idle, seen)}, 0},
		{"broken, and not exercised", siege.Report{
			Thorough: true, Sum: findings(idle), Rounds: []*siege.RoundReport{{OK: false}}}, statusBroken},
	} {
		if len(tt.report.Rounds) == 0 {
			tt.report.Rounds = []*siege.RoundReport{{OK: true}}
		}
		assert.Equal(t, statusOf(found(&tt.report)), tt.want, "%s: exit status", tt.name)
	}
	failed := errors.Join(errors.New("no disk"), fmt.Errorf("round 1: %w", errors.ErrUnsupported))
	assert.Equal(t, statusOf(failed), statusFailed, "a stand that failed: exit status")
}
