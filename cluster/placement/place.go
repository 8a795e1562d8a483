package placement

import (
	"cmp"
	"slices"
)

// even is the price of a unit of unevenness. Prices of different weights then differ by two or more, or not at all.
const even = 2 * MaxWeight * MaxWeight

// number returns the prices of the nodes' shards by number. The nth shard of a node costs 2n+1 for its weight: the sums
// are squares, so the cheapest numbers are the most even ones, and a number is nearest to the node's part.
func (c *cluster) number(scale int64) func(node, nth int) int64 {
	return func(node, nth int) int64 {
		return int64(2*nth+1) * even / int64(c.nodes[node].Weight) * scale
	}
}

// place decides the nodes of each shard.
func (c *cluster) place(shards []*shard) {
	replicas := 0
	for _, s := range shards {
		replicas += s.want
	}
	// One unit of unevenness outweighs all copies, and one copy outweighs all leaderships.
	pricePair, scale := int64(replicas+1), int64(replicas+1)*int64(replicas+1)
	x := &exchange{zone: c.zone, number: c.number(scale)}
	for _, s := range shards {
		s.priceNodes(pricePair)
		x.spreads = append(x.spreads, &s.spread)
	}
	c.begin(shards)
	x.improve()
}

// priceNodes sets the prices of the nodes that may hold the shard.
func (s *shard) priceNodes(copied int64) {
	for n := range s.prices {
		switch {
		case s.prices[n] == never:
		case n == s.preferred:
			s.prices[n] = 0
		case slices.Contains(s.held, n):
			s.prices[n] = 1
		default:
			s.prices[n] = copied
		}
	}
}

// beginning is a placement that is near the best one.
type beginning struct {
	*cluster
	count  []int   // replicas of each node
	shared [][]int // number of shards that two nodes share
}

// begin lets each shard keep its replicas, as far as it may. Then each shard in turn takes the replicas that it lacks.
func (c *cluster) begin(shards []*shard) {
	b := beginning{cluster: c, count: make([]int, len(c.nodes)), shared: make([][]int, len(c.nodes))}
	for n := range b.shared {
		b.shared[n] = make([]int, len(c.nodes))
	}
	for _, s := range shards {
		for _, n := range s.held {
			if c.admits(s, n) {
				b.add(s, n)
			}
		}
	}
	for _, s := range shards {
		for len(s.nodes) < s.want {
			b.add(s, b.least(s))
		}
	}
}

func (b *beginning) add(s *shard, node int) {
	for _, other := range s.nodes {
		b.shared[node][other]++
		b.shared[other][node]++
	}
	s.nodes = append(s.nodes, node)
	s.filled[b.zone[node]]++
	b.count[node]++
}

// least returns the node that has least for its weight. Of equal nodes it returns one that shares few shards with those
// of this shard, so that many nodes share the work of a lost one, and then the first by id.
func (b *beginning) least(s *shard) int {
	price, best := b.number(1), none
	compare := func(x, y int) int {
		return cmp.Or(cmp.Compare(price(x, b.count[x]), price(y, b.count[y])), b.together(s, x)-b.together(s, y))
	}
	for n := range b.nodes {
		if b.admits(s, n) && (best == none || compare(n, best) < 0) {
			best = n
		}
	}
	return best
}

func (b *beginning) together(s *shard, node int) int {
	sum := 0
	for _, other := range s.nodes {
		sum += b.shared[node][other]
	}
	return sum
}

// admits reports whether the shard may have one more replica, on the node.
func (c *cluster) admits(s *shard, node int) bool {
	zone := c.zone[node]
	switch {
	case s.prices[node] == never || slices.Contains(s.nodes, node) || s.filled[zone] >= s.zones[zone].most:
		return false
	case s.filled[zone] < s.zones[zone].least:
		return true
	}
	owed := 0 // replicas that zones lack to their least number
	for z, bounds := range s.zones {
		owed += max(0, bounds.least-s.filled[z])
	}
	return len(s.nodes)+owed < s.want
}
