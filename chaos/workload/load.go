package workload

import (
	"context"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/belfryhq/belfry/chaos/load"
)

// Load plays scripts and the other parts of a load. Its methods are safe for concurrent use.
type Load struct {
	player *load.Player
	cfg    Config
	caller *caller
	forger *caller               // with the key of the forger
	seen   atomic.Pointer[sight] // of the last lease; nil: there was none

	repeated *load.Schedules
	steady   *load.Schedules // nil: Steady was not called
}

// New makes a load. It makes no call yet. An error means that cfg lacks a required field, or that a client for a node
// cannot be made.
func New(cfg Config) (*Load, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	c, err := newCaller(cfg)
	if err != nil {
		return nil, err
	}
	l := &Load{cfg: cfg, caller: c}
	cfg.Nodes = slices.Clone(cfg.Nodes)
	for i := range cfg.Nodes {
		cfg.Nodes[i].KeyFile = cfg.ForgerKey
	}
	if l.forger, err = newCaller(cfg); err != nil {
		return nil, err
	}
	l.player, l.repeated = load.New(l.plan()), load.NewSchedules(l.scheduleConfig())
	return l, nil
}

// plan returns the config of the player. Everything in it happens within seconds.
func (l *Load) plan() load.Config {
	cfg := load.Config{
		Driver: driver{l}, Recorder: l.cfg.Recorder, Seed: l.cfg.Seed, Prefix: l.cfg.Prefix, Weights: weights,
		Hot: max(l.cfg.Hot, 0), HotEvery: 12, RetryFor: l.cfg.RetryFor, MaxPause: maxPause,
		Draw: load.Draw{
			After: l.after, Queue: l.queue, Hold: maxHold, Fail: 2, Attempts: 2, HotDelay: hotMaxDelay,
			LeaseFor: l.leaseFor, Overdue: overdue, NackFor: maxNackDelay,
		},
	}
	if l.cfg.Pulled > 0 {
		cfg.HotQueue = l.cfg.Queue
	}
	if l.cfg.Groups > 0 {
		cfg.Ordered, cfg.Groups, cfg.Weights = l.cfg.orderedQueue(), l.cfg.Groups, maps.Clone(weights)
		cfg.Weights["grouped"] = 6
	}
	if l.cfg.Plain {
		cfg.Weights, cfg.Draw.Hold = load.Only("plain"), 0
	}
	return cfg
}

// weights are the weights that differ from the usual ones. The scripts "queued" and "pulled" need queues that a load of
// real processes does not have: queue draws the queue of each task.
var weights = map[string]int{
	"plain": 40, "dead": 2, "storm": 0, "replaced at due": 0, "expiring": 0, "queued": 0, "pulled": 0,
}

const (
	maxHold      = 500 * time.Millisecond
	hotMaxDelay  = 400 * time.Millisecond
	maxNackDelay = time.Second
	overdue      = 900 * time.Millisecond
)

// Run plays scripts until all are played or stop is closed, and returns when the scripts that were begun are over. The
// end of ctx cuts them short.
func (l *Load) Run(ctx context.Context, stop <-chan struct{}) {
	turns := make(chan int)
	var workers sync.WaitGroup
	for range l.cfg.Workers {
		workers.Go(func() {
			for i := range turns {
				l.player.Play(ctx, i)
			}
		})
	}
	l.pace(ctx, stop, turns)
	close(turns)
	workers.Wait()
}

// pace hands out the numbers of the scripts at the rate of Config.PerSecond. It waits while all workers are busy, so
// that a cluster that stands still is not buried in calls.
func (l *Load) pace(ctx context.Context, stop <-chan struct{}, turns chan<- int) {
	tick := time.NewTicker(time.Second / time.Duration(l.cfg.PerSecond))
	defer tick.Stop()
	for i := 0; l.cfg.Tasks == 0 || i < l.cfg.Tasks; i++ {
		select {
		case <-ctx.Done():
			return
		case <-stop:
			return
		case <-tick.C:
		}
		select {
		case <-ctx.Done():
			return
		case <-stop:
			return
		case turns <- i:
		}
	}
}

// after draws how long from now a task is due: mostly anywhere in the whole range, in one case of ten less than 30 ms.
func (l *Load) after(rng *rand.Rand) time.Duration {
	if rng.IntN(10) == 0 {
		return time.Duration(rng.IntN(30)) * time.Millisecond
	}
	return time.Duration(rng.Int64N(int64(l.cfg.MaxDelay))).Round(time.Millisecond)
}

// due draws the instant at which a task is due.
func (l *Load) due(rng *rand.Rand) time.Time { return l.cfg.Recorder.Now().Add(l.after(rng)).Time() }

// queue draws the queue of a task: the consumers' queue for some tasks, none for the others.
func (l *Load) queue(rng *rand.Rand) string {
	if rng.IntN(100) < l.cfg.Pulled {
		return l.cfg.Queue
	}
	return ""
}
