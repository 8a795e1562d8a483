package sim

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/belfryhq/belfry/chaos/check"
	"github.com/belfryhq/belfry/chaos/load"
	"github.com/belfryhq/belfry/chaos/sim/internal/disk"
	"github.com/belfryhq/belfry/chaos/sim/internal/wire"
	"github.com/belfryhq/belfry/shard"
)

// Config describes a simulated cluster and the faults and load of its run. Draw makes one from a seed.
type Config struct {
	Seed     uint64
	Nodes    int // nodes of the cluster
	Replicas int // replicas of each shard
	Shards   int
	Span     time.Duration // of load and faults; unfinished tasks come to rest after it
	Scripts  int           // scripts of the load

	SnapshotLog  int64   // bytes of log that make a snapshot due
	SnapshotPart float64 // further bytes of log for each byte of the state
	SnapshotTail uint64  // entries kept after a snapshot
	Preferred    bool    // each shard has a node that should lead it
	Alive        bool    // leaders learn which nodes are up before they give a shard away
	Moves        bool    // shards move between the nodes
	Operations   int     // operations on slots
	MostShards   int     // shards that splits may lead to
	Burst        int     // scripts of the load that begin with each move of slots
	Schedules    int     // schedules of the load
	Faults       []string
	Logger       *slog.Logger // receives the log of all nodes; nil: none

	short bool
	pace  pace
	net   wire.Quality
	disk  disk.Trouble
}

// Draw makes the config of a seed.
func Draw(seed uint64) Config {
	rng := rand.New(rand.NewPCG(seed, 0x636f6e66))
	c := Config{Seed: seed, pace: paces[rng.IntN(len(paces))]}
	switch n := rng.IntN(20); {
	case n == 0:
		c.Nodes, c.Replicas = 1, 1
	case n < 4:
		c.Nodes, c.Replicas = 5, 5
	case n < 6:
		c.Nodes, c.Replicas = 5, 3
	default:
		c.Nodes, c.Replicas = 3, 3
	}
	c.Shards = 1 + rng.IntN(2)
	c.Span = between(rng, c.pace.span)
	c.Scripts = 300 + rng.IntN(700)
	c.SnapshotLog = int64(2<<10) << rng.IntN(6)
	c.SnapshotPart = 0.002 + 0.1*rng.Float64()*rng.Float64()
	c.SnapshotTail = uint64(8) << rng.IntN(4)
	c.Preferred, c.Alive = rng.IntN(2) == 0, rng.IntN(2) == 0
	c.net = wire.Quality{
		Delay: time.Duration(50+rng.IntN(2000)) * time.Microsecond, Jitter: time.Duration(rng.IntN(3000)) * time.Microsecond,
	}
	c.disk = disk.Trouble{
		Delay: time.Duration(20+rng.IntN(1000)) * time.Microsecond, Jitter: time.Duration(rng.IntN(3000)) * time.Microsecond,
	}
	c.Faults = drawFaults(rng)
	if rng := rand.New(rand.NewPCG(seed, 0x736c6f74)); rng.IntN(3) > 0 {
		c.Operations, c.Burst, c.MostShards = 2+rng.IntN(5), 24, c.Shards+2
		if c.Replicas > 3 || c.pace.name == "weeks" {
			c.MostShards = c.Shards + 1 // the heartbeats of more take too long to play
		}
	}
	c.Schedules = 3 + rand.New(rand.NewPCG(seed, 0x72657065)).IntN(4)
	return c
}

// drawFaults picks the kinds of faults of a run. Two runs in three have all kinds. The others have one to three, so
// that each kind also strikes alone.
func drawFaults(rng *rand.Rand) []string {
	var names []string
	for _, k := range kinds {
		names = append(names, k.name)
	}
	if rng.IntN(3) == 0 {
		rng.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
		names = names[:1+rng.IntN(3)]
	}
	return names
}

// between draws from a range. Short durations are as likely as long ones.
func between(rng *rand.Rand, r [2]time.Duration) time.Duration { return load.Between(rng, r[0], r[1]) }

// Moving returns the config with shards that move between the nodes, and without operations on slots. It has one to
// three nodes more than replicas, and the pace of an hour: the steps of a move follow each other within parts of a
// second.
func (c Config) Moving() Config {
	rng := rand.New(rand.NewPCG(c.Seed, 0x6d6f7665))
	c.Moves, c.Operations, c.pace = true, 0, paces[0]
	c.Span = between(rng, c.pace.span)
	c.Replicas = 3
	if rng.IntN(6) == 0 {
		c.Replicas = 1
	}
	c.Nodes = c.Replicas + 1 + rng.IntN(3)
	return c
}

// Short returns the config with a fifth of the scripts and of the span, and at most two operations on slots.
func (c Config) Short() Config {
	c.short = true
	c.Scripts /= 5
	c.Span /= 5
	c.Operations = min(c.Operations, 2)
	return c
}

func (c Config) String() string {
	moves := ""
	if c.Moves {
		moves = " that move"
	}
	return fmt.Sprintf("seed %d: pace %s, %d shards%s on %d of %d nodes, %v, %d scripts, %d operations on slots, "+
		"%d schedules, "+
		"faults %s", c.Seed, c.pace.name, c.Shards, moves, c.Replicas, c.Nodes, c.Span.Round(time.Minute), c.Scripts,
		c.Operations, c.Schedules, strings.Join(c.Faults, ", "))
}

// pace sets the time scale of a cluster. The cost of simulated time is the events in it, and in an idle cluster these
// are heartbeats. So a cluster that lives for weeks has slow heartbeats, and faults and tasks that last accordingly.
// Networks, disks and commits take milliseconds at every pace.
type pace struct {
	name      string
	heartbeat time.Duration
	span      [2]time.Duration // least and most duration of load and faults
	hold      [2]time.Duration // least and most duration of a fault
	calm      [2]time.Duration // least and most time between two episodes
	maxDelay  time.Duration    // longest delay of a task
}

var paces = []pace{
	{
		name: "hour", heartbeat: time.Second, span: span(20*time.Minute, time.Hour),
		hold: span(50*time.Millisecond, 45*time.Second), calm: span(15*time.Second, 3*time.Minute), maxDelay: 3 * time.Minute,
	},
	{
		name: "day", heartbeat: 15 * time.Second, span: span(10*time.Hour, 36*time.Hour),
		hold: span(100*time.Millisecond, 15*time.Minute), calm: span(5*time.Minute, 2*time.Hour), maxDelay: 6 * time.Hour,
	},
	{
		name: "weeks", heartbeat: 4 * time.Minute, span: span(7*24*time.Hour, 21*24*time.Hour),
		hold: span(time.Second, 8*time.Hour), calm: span(time.Hour, 36*time.Hour), maxDelay: 4 * 24 * time.Hour,
	},
}

func span(least, most time.Duration) [2]time.Duration { return [2]time.Duration{least, most} }

const (
	// settling is the longest time from a verdict to the commit of its entry. A write of a slow disk takes up to
	// diskPatience, and several writes wait for each other.
	settling     = 30 * time.Second
	diskPatience = 10 * time.Second
	// elections is the longest time until a shard has elected a leader that answers, in heartbeats.
	elections = 15
	// stuckAfter is how long a leader may try to commit an entry, in heartbeats. Raft tries again every one or two
	// heartbeats.
	stuckAfter = 40
)

// timing returns the timing of production (shard.LAN) with the heartbeat of the pace.
func (p pace) timing() shard.Timing {
	t := shard.LAN()
	h := p.heartbeat
	t.Heartbeat, t.Election, t.Lease, t.Commit = h, h, h, h
	t.Beat = 2 * h / 5
	t.HeadStart, t.Calm = 2*h, 6*h
	t.Stuck = stuckAfter * h
	t.ClockLook = max(2*time.Second, h/4)
	return t
}

// recovery returns the longest time from the mending of faults until everything works again.
func (p pace) recovery() time.Duration { return elections*p.heartbeat + settling }

func (p pace) limits() check.Limits {
	back := p.recovery()
	return check.Limits{
		Settle: settling, Tail: back, Recover: back, FirstFire: back, Detect: back, Surprise: 2*p.heartbeat + settling,
	}
}

// rpcTimeout returns how long Raft waits for an answer.
func (p pace) rpcTimeout() time.Duration { return min(p.heartbeat, 5*time.Second) }

// callTimeout returns how long a node tries to carry out a call.
func (p pace) callTimeout() time.Duration { return max(2*time.Second, p.heartbeat/2) }

// retryFor returns how long a caller repeats a call.
func (p pace) retryFor() time.Duration { return 2 * p.recovery() }
