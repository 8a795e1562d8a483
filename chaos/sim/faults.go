package sim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/belfryhq/belfry/chaos/history"
	"github.com/belfryhq/belfry/chaos/sim/internal/wire"
)

// kind is a kind of fault. strike breaks something without waiting, and returns a description of the fault and the
// function that mends it.
type kind struct {
	name   string
	strike func(c *conductor, rng *rand.Rand, hold time.Duration) (f history.Fault, mend func())
}

var kinds = []kind{
	{history.KillLeader, (*conductor).crashLeader},
	{"crash of a node", (*conductor).crashAny},
	{"crash loop of a node", (*conductor).crashLoop},
	{history.KillAll, (*conductor).crashAll},
	{"restart in order", (*conductor).restart},
	{"leader cut off", (*conductor).isolateLeader},
	{"split", (*conductor).split},
	{"one way cut", (*conductor).oneWay},
	{"two nodes apart", (*conductor).bridge},
	{"flaky network", (*conductor).flaky},
	{"slow network", (*conductor).slowNetwork},
	{"slow disk", (*conductor).slowDisk},
	{"hung disk", (*conductor).hungDisk},
	{"failing disk", (*conductor).failingDisk},
	{"clock set", (*conductor).setClock},
	{"clocks that drift", (*conductor).drift},
	{"leadership moved", (*conductor).move},
	{"node that hangs", (*conductor).freeze},
	{"receiver down", (*conductor).receiverDown},
	{"receiver deaf", (*conductor).receiverDeaf},
	{"receiver slow", (*conductor).receiverSlow},
	{"queue paused", (*conductor).pause},
}

// about returns a fault that strikes the given nodes, with the shards that they lead now.
func (c *conductor) about(detail string, nodes ...*Node) history.Fault {
	f := history.Fault{Detail: detail, Shards: c.world.ledBy(nodes...)}
	for _, n := range nodes {
		f.Nodes = append(f.Nodes, n.name)
	}
	return f
}

func (c *conductor) any(rng *rand.Rand) *Node { return c.world.nodes[rng.IntN(len(c.world.nodes))] }

// aLeader returns the leader of a random shard, or a random node if that shard has no leader.
func (c *conductor) aLeader(rng *rand.Rand) *Node {
	if n := c.world.leader(1 + rng.Uint32N(uint32(c.world.cfg.Shards))); n != nil {
		return n
	}
	return c.any(rng)
}

// some returns a random, non-empty set of nodes.
func (c *conductor) some(rng *rand.Rand) []*Node {
	nodes := slices.Clone(c.world.nodes)
	rng.Shuffle(len(nodes), func(i, j int) { nodes[i], nodes[j] = nodes[j], nodes[i] })
	return nodes[:1+rng.IntN(len(nodes))]
}

func (c *conductor) crashLeader(rng *rand.Rand, _ time.Duration) (history.Fault, func()) {
	return c.crash(c.aLeader(rng))
}

func (c *conductor) crashAny(rng *rand.Rand, _ time.Duration) (history.Fault, func()) {
	return c.crash(c.any(rng))
}

func (c *conductor) crashAll(*rand.Rand, time.Duration) (history.Fault, func()) {
	return c.crash(c.world.nodes...)
}

func (c *conductor) crash(nodes ...*Node) (history.Fault, func()) {
	f := c.about("", nodes...)
	for _, n := range nodes {
		n.crash()
	}
	return f, func() {
		for _, n := range nodes {
			n.start()
		}
	}
}

// beside runs do in the background for as long as a fault lasts, hold at most. mend ends do and waits for its return.
func (c *conductor) beside(hold time.Duration, do func(ctx context.Context)) (mend func()) {
	ctx, cancel := context.WithTimeout(c.world.ctx, hold)
	done := make(chan struct{})
	go func() {
		defer close(done)
		do(ctx)
	}()
	return func() {
		cancel()
		<-done
	}
}

// crashLoop crashes a node and starts it again several times. Each process runs for a short while only.
func (c *conductor) crashLoop(rng *rand.Rand, hold time.Duration) (history.Fault, func()) {
	n, times := c.any(rng), 2+rng.IntN(5)
	f := c.about(fmt.Sprintf("%d times", times), n)
	n.crash()
	return f, c.beside(hold, func(ctx context.Context) {
		for range times {
			wire.Sleep(ctx, time.Duration(rng.Int64N(int64(hold)))/time.Duration(times))
			n.start()
			wire.Sleep(ctx, time.Duration(rng.Int64N(int64(hold)))/time.Duration(times))
			n.crash()
		}
		n.start()
	})
}

func (c *conductor) restart(rng *rand.Rand, hold time.Duration) (history.Fault, func()) {
	n := c.any(rng)
	return c.about("", n), c.beside(hold, func(ctx context.Context) {
		n.stop(ctx)
		n.start()
	})
}

// move transfers leaderships to random nodes a few times, as an operator would.
func (c *conductor) move(rng *rand.Rand, hold time.Duration) (history.Fault, func()) {
	return c.about("", c.world.nodes...), c.beside(hold, func(ctx context.Context) {
		for range 1 + rng.IntN(4) {
			from, to := c.aLeader(rng), c.any(rng)
			if p := from.running(); p != nil {
				for _, r := range p.all() {
					_ = r.shard.Transfer(ctx, to.name) // a transfer that fails changes nothing
				}
			}
			if !wire.Sleep(ctx, time.Duration(rng.Int64N(int64(hold)))/4) {
				return
			}
		}
	})
}

func (c *conductor) freeze(rng *rand.Rand, _ time.Duration) (history.Fault, func()) {
	n := c.aLeader(rng)
	return c.about("", n), n.hang()
}
