package chaos

import (
	"context"
	"time"

	"github.com/belfryhq/belfry/chaos/check"
	"github.com/belfryhq/belfry/chaos/siege"
)

// Config describes a run. Binary and Dir must be given.
type Config struct {
	Binary string // path of the belfry program
	Dir    string // for the cluster's data and logs, and for the run's record
	Nodes  int    // default 3
	Shards int    // default 3
	Seed   uint64
	Limits check.Limits // zero: the limits for an undisturbed machine

	PerSecond int           // scripts that the load begins each second; default 200
	MaxDelay  time.Duration // longest delay of a task; default 3 s
	Drain     time.Duration // time for every task to come to rest in the end; default 60 s
	Sample    int           // tasks to read, of the plainly delivered ones and of those on single replicas; default 3000
}

// Play plays a scenario as a siege of one round with a plan. It returns an error if there is no report.
func Play(ctx context.Context, cfg Config, s Scenario) (*siege.Report, error) {
	return siege.Run(ctx, siege.Config{
		Binary: cfg.Binary, Dir: cfg.Dir, Nodes: cfg.Nodes, Shards: cfg.Shards, Seed: cfg.Seed, Limits: cfg.Limits,
		PerSecond: cfg.PerSecond, MaxDelay: cfg.MaxDelay, Drain: cfg.Drain, Sample: cfg.Sample,
		Round: 1, Plan: (*siege.Plan)(&s), Keep: true,
	})
}
