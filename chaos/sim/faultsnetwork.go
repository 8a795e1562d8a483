package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/belfryhq/belfry/chaos/history"
	"github.com/belfryhq/belfry/chaos/sim/internal/wire"
)

// network changes ways of the network. Ways turn calm again only when the last network fault under way is mended.
func (c *conductor) network(detail string, change func(set func(from, to *Node, q wire.Quality)), nodes ...*Node) (
	history.Fault, func()) {
	f := c.about(detail, nodes...)
	f.Spared = true
	c.mu.Lock()
	c.networks++
	c.mu.Unlock()
	change(func(from, to *Node, q wire.Quality) { c.world.net.Set(from.name, to.name, q) })
	return f, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.networks--; c.networks == 0 {
			c.world.net.Heal()
		}
	}
}

var cut = wire.Quality{Cut: true}

func (c *conductor) isolateLeader(rng *rand.Rand, _ time.Duration) (history.Fault, func()) {
	n := c.aLeader(rng)
	return c.network(n.name, func(set func(from, to *Node, q wire.Quality)) {
		for _, other := range c.world.nodes {
			set(n, other, cut)
			set(other, n, cut)
		}
	}, n)
}

func (c *conductor) split(rng *rand.Rand, _ time.Duration) (history.Fault, func()) {
	side := c.some(rng)
	return c.network(fmt.Sprint(names(side)), func(set func(from, to *Node, q wire.Quality)) {
		for _, a := range side {
			for _, b := range c.world.nodes {
				if !slices.Contains(side, b) {
					set(a, b, cut)
					set(b, a, cut)
				}
			}
		}
	}, c.world.nodes...)
}

func names(nodes []*Node) []string {
	var all []string
	for _, n := range nodes {
		all = append(all, n.name)
	}
	return all
}

// oneWay cuts all ways to a node, or all ways from it.
func (c *conductor) oneWay(rng *rand.Rand, _ time.Duration) (history.Fault, func()) {
	n, in := c.aLeader(rng), rng.IntN(2) == 0
	if rng.IntN(2) == 0 {
		n = c.any(rng)
	}
	return c.network(fmt.Sprintf("%s, in %v", n.name, in), func(set func(from, to *Node, q wire.Quality)) {
		for _, other := range c.world.nodes {
			if in {
				set(other, n, cut)
			} else {
				set(n, other, cut)
			}
		}
	}, c.world.nodes...)
}

// bridge cuts two nodes apart. The other nodes still reach both.
func (c *conductor) bridge(rng *rand.Rand, _ time.Duration) (history.Fault, func()) {
	a, b := c.any(rng), c.any(rng)
	return c.network(a.name+"-"+b.name, func(set func(from, to *Node, q wire.Quality)) {
		set(a, b, cut)
		set(b, a, cut)
	}, c.world.nodes...)
}

func (c *conductor) flaky(rng *rand.Rand, _ time.Duration) (history.Fault, func()) {
	q := c.world.net.Calm()
	q.Loss, q.Duplicate, q.Late = rng.Float64()*0.3, rng.Float64()*0.3, rng.Float64()*0.1
	q.Jitter += time.Duration(rng.IntN(200)) * time.Millisecond
	q.Lateness = between(rng, span(10*time.Millisecond, 4*c.world.cfg.pace.heartbeat))
	detail := fmt.Sprintf("loss %.2f, twice %.2f, late %.2f by %v", q.Loss, q.Duplicate, q.Late, q.Lateness)
	return c.everyWay(rng, detail, q)
}

func (c *conductor) slowNetwork(rng *rand.Rand, _ time.Duration) (history.Fault, func()) {
	q := c.world.net.Calm()
	q.Delay += between(rng, span(5*time.Millisecond, time.Second))
	q.Jitter += time.Duration(rng.Int64N(int64(q.Delay)))
	return c.everyWay(rng, fmt.Sprintf("%v and up to %v", q.Delay, q.Jitter), q)
}

// everyWay gives the quality q to all ways, or to about half of them.
func (c *conductor) everyWay(rng *rand.Rand, detail string, q wire.Quality) (history.Fault, func()) {
	all := rng.IntN(2) == 0
	return c.network(detail, func(set func(from, to *Node, q wire.Quality)) {
		for _, a := range c.world.nodes {
			for _, b := range c.world.nodes {
				if all || rng.IntN(2) == 0 {
					set(a, b, q)
				}
			}
		}
	}, c.world.nodes...)
}
