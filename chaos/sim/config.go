package sim

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/belfryhq/belfry/chaos/load"
	"github.com/belfryhq/belfry/chaos/sim/disk"
	"github.com/belfryhq/belfry/chaos/sim/wire"
)

// Config is a simulated cluster and what it goes through. Draw makes one from a seed.
type Config struct {
	Seed     uint64
	Nodes    int // that there are,
	Replicas int // and those of each shard
	Shards   int
	Span     time.Duration // of load and faults; what is left comes to rest after it
	Scripts  int           // lives of tasks

	SnapshotLog  int64   // bytes of log that make a snapshot due,
	SnapshotPart float64 // and these for each byte of the state
	SnapshotTail uint64  // entries kept after one
	Preferred    bool    // shards have nodes that should lead them
	Alive        bool    // nodes have a hint who is up
	Faults       []string
	Logger       *slog.Logger // of all nodes; nil: none

	short bool
	pace  pace
	net   wire.Quality
	disk  disk.Trouble
}

// Draw makes a config of a seed.
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
	return c
}

// drawFaults picks the kinds that a run has: all, or, so that each kind is also seen alone, few.
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

// between draws from a range, short durations as likely as long ones.
func between(rng *rand.Rand, r [2]time.Duration) time.Duration { return load.Between(rng, r[0], r[1]) }

// Short is a smaller part of the same.
func (c Config) Short() Config {
	c.short = true
	c.Scripts /= 5
	c.Span /= 5
	return c
}

func (c Config) String() string {
	return fmt.Sprintf("seed %d: pace %s, %d shards on %d of %d nodes, %v, %d scripts, faults %s", c.Seed, c.pace.name,
		c.Shards, c.Replicas, c.Nodes, c.Span.Round(time.Minute), c.Scripts, strings.Join(c.Faults, ", "))
}
