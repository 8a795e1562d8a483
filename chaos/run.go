package chaos

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/belfryhq/belfry/chaos/check"
	"github.com/belfryhq/belfry/chaos/faults"
	"github.com/belfryhq/belfry/chaos/history"
	"github.com/belfryhq/belfry/chaos/verdict"
	"github.com/belfryhq/belfry/chaos/workload"
	"github.com/belfryhq/belfry/deploy/local"
)

// Config describes a run. Binary and Dir must be given.
type Config struct {
	Binary string // of belfry
	Dir    string // of the cluster's data and logs, and of history.jsonl
	Nodes  int    // default 3
	Shards int    // default 3
	Seed   uint64
	Limits check.Limits // zero: those for an undisturbed machine

	PerSecond int           // scripts of the load that are begun; default 200
	MaxDelay  time.Duration // of a task; default 3 s
	Drain     time.Duration // for everything to come to rest in the end; default 60 s
	Sample    int           // of plainly delivered tasks, and of tasks on single replicas, how many are read; default 3000
}

func (c Config) withDefaults() (Config, error) {
	if c.Binary == "" || c.Dir == "" {
		return c, errors.New("chaos: Binary and Dir must be given")
	}
	if c.Nodes == 0 {
		c.Nodes = 3
	}
	if c.Shards == 0 {
		c.Shards = 3
	}
	if c.Limits == (check.Limits{}) {
		c.Limits = check.DefaultLimits()
	}
	if c.Drain == 0 {
		c.Drain = time.Minute
	}
	if c.Sample == 0 {
		c.Sample = 3000
	}
	return c, nil
}

// Run is a run on its way, as a scenario sees it.
type Run struct {
	cfg     Config
	cluster *local.Cluster
	rec     *history.Recorder
	breaker *faults.Breaker
	load    *workload.Load
}

// Play plays a scenario and judges it. An error says why there is no verdict.
func Play(ctx context.Context, cfg Config, s Scenario) (v *verdict.Verdict, err error) {
	cfg, err = cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	rec, err := history.Create(filepath.Join(cfg.Dir, "history.jsonl"))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rec.Close()) }()
	cluster, err := local.Start(ctx, local.Config{
		Binary: cfg.Binary, DataDir: cfg.Dir, Nodes: cfg.Nodes, ExtraArgs: []string{"--shards", strconv.Itoa(cfg.Shards)},
	})
	if err != nil {
		return nil, err
	}
	defer cluster.Stop()
	receiver, err := workload.Listen(ctx, rec, workload.Loopback)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, receiver.Close()) }()
	r := &Run{cfg: cfg, cluster: cluster, rec: rec}
	if err := r.prepare(receiver.URL); err != nil {
		return nil, err
	}
	if err := r.play(ctx, s); err != nil {
		return nil, fmt.Errorf("%s: %w", s.Name, err)
	}
	return verdict.Of(s.Name, rec.History(), cfg.Limits), nil
}

func (r *Run) prepare(target string) (err error) {
	if r.breaker, err = faults.NewBreaker(r.cluster, r.rec); err != nil {
		return err
	}
	var nodes []workload.Node
	for _, n := range r.cluster.Nodes() {
		nodes = append(nodes, workload.Node{Name: n.Name, URL: "http://" + n.HTTPAddr})
	}
	r.load, err = workload.New(workload.Config{
		Nodes: nodes, Target: target, Recorder: r.rec, Seed: r.cfg.Seed, PerSecond: r.cfg.PerSecond, MaxDelay: r.cfg.MaxDelay,
	})
	return err
}

// play runs the scenario with everything that accompanies it, and then lets the cluster come to rest.
func (r *Run) play(ctx context.Context, s Scenario) error {
	leaders, err := r.breaker.Leaders(ctx)
	if err != nil {
		return err
	}
	watching, unwatch := context.WithCancel(ctx)
	var companions sync.WaitGroup
	failed := make([]error, 2)
	companions.Go(func() { failed[0] = faults.Watch(watching, r.cluster, r.rec) })
	companions.Go(func() { failed[1] = r.load.Probe(watching, len(leaders)) })
	err = r.perform(ctx, s)
	if err == nil {
		err = r.drain(ctx)
	}
	unwatch()
	companions.Wait()
	if err = errors.Join(append(failed, err)...); err != nil {
		return err
	}
	return r.inspect(ctx)
}

// soon: what is due after the run is no concern of it.
const soon = 10 * time.Minute

// drain waits until every task has come to rest. Those that do not are left to the verdict.
func (r *Run) drain(ctx context.Context) error {
	drain, cancel := context.WithTimeout(ctx, r.cfg.Drain)
	defer cancel()
	r.load.Drain(drain, soon, r.cfg.Sample)
	return ctx.Err()
}

// inspect reads what is left, of a cluster at rest.
func (r *Run) inspect(ctx context.Context) error {
	settle, cancel := context.WithTimeout(ctx, r.cfg.Drain)
	defer cancel()
	if err := r.breaker.RecordReplicas(settle); err != nil {
		return err
	}
	return r.load.ReadAll(ctx, r.cfg.Sample)
}
