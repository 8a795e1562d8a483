package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/belfryhq/belfry/chaos/history"
)

func (c *conductor) setClock(rng *rand.Rand, _ time.Duration) (history.Fault, func()) {
	n, by := c.any(rng), between(rng, span(10*time.Millisecond, 3*time.Hour))
	if rng.IntN(2) == 0 {
		n = c.aLeader(rng)
	}
	if rng.IntN(2) == 0 {
		by = -by
	}
	f := c.about(fmt.Sprintf("by %v", by), n)
	f.Skew, f.Alone = by, len(c.world.nodes) == 1 || n.votesAlone()
	n.clock.set(by, 0)
	return f, func() { n.clock.set(0, 0) }
}

// votesAlone reports whether a replica on the node is the only voter of its shard, so that no other node checks its
// clock. That happens where shards move.
func (n *Node) votesAlone() bool {
	p := n.running()
	return p != nil && slices.ContainsFunc(p.all(), func(r replica) bool { return len(r.shard.Voters()) == 1 })
}

// driftsBy is the largest drift of a clock from true time before the clocks are set right. The cluster bears it
// without a change of leader.
const driftsBy = 100 * time.Millisecond

// drift lets the clocks run apart slowly, as they do without a time daemon.
func (c *conductor) drift(rng *rand.Rand, hold time.Duration) (history.Fault, func()) {
	f := c.about("", c.world.nodes...)
	f.Skew = driftsBy
	most := min(500, 1e6*driftsBy.Seconds()/hold.Seconds())
	for _, n := range c.world.nodes {
		n.clock.set(0, most*(2*rng.Float64()-1))
	}
	return f, func() {
		for _, n := range c.world.nodes {
			n.clock.set(0, 0)
		}
	}
}
