package chaos

import (
	"context"
	"time"

	"github.com/belfryhq/belfry/chaos/check"
	"github.com/belfryhq/belfry/chaos/siege"
)

// Config describes a run. Binary and Dir must be given.
type Config struct {
	Binary string // of belfry
	Dir    string // of the cluster's data and logs, and of the record if the run fails
	Nodes  int    // default 3
	Shards int    // default 3
	Seed   uint64
	Limits check.Limits // zero: those for an undisturbed machine

	PerSecond int           // scripts of the load that are begun; default 200
	MaxDelay  time.Duration // of a task; default 3 s
	Drain     time.Duration // for everything to come to rest in the end; default 60 s
	Sample    int           // of plainly delivered tasks, and of tasks on single replicas, how many are read; default 3000
}

// Play plays a scenario, which is a siege of one round with a plan. An error says why there is no report.
func Play(ctx context.Context, cfg Config, s Scenario) (*siege.Report, error) {
	return siege.Run(ctx, siege.Config{
		Binary: cfg.Binary, Dir: cfg.Dir, Nodes: cfg.Nodes, Shards: cfg.Shards, Seed: cfg.Seed, Limits: cfg.Limits,
		PerSecond: cfg.PerSecond, MaxDelay: cfg.MaxDelay, Drain: cfg.Drain, Sample: cfg.Sample,
		Round: 1, Plan: (*siege.Plan)(&s), Keep: true,
	})
}
