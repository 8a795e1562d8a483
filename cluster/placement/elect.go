package placement

import "slices"

// elect decides the preferred leader of each shard.
func (c *cluster) elect(shards []*shard) {
	x := &exchange{zone: c.zone, number: c.number(int64(len(shards) + 1))}
	count := make([]int, len(c.nodes))
	for _, s := range shards {
		prices := c.leaderPrices(s)
		leader := c.firstLeader(s, prices, count)
		count[leader]++
		x.spreads = append(x.spreads, &spread{nodes: []int{leader}, prices: prices})
	}
	x.improve()
	for i, s := range shards {
		s.leader = x.spreads[i].nodes[0]
	}
}

// leaderPrices returns the prices of the nodes that may lead the shard. An absent node does so if it does already, or
// if the shard has no active node.
func (c *cluster) leaderPrices(s *shard) []int64 {
	active := slices.ContainsFunc(s.nodes, func(n int) bool { return c.nodes[n].State == Active })
	prices := make([]int64, len(c.nodes))
	for n := range prices {
		switch {
		case !slices.Contains(s.nodes, n):
			prices[n] = never
		case n == s.preferred:
			prices[n] = 0
		case c.nodes[n].State == Active || !active:
			prices[n] = 1
		default:
			prices[n] = never
		}
	}
	return prices
}

// firstLeader returns the present leader if the shard keeps it, or else the first of the nodes that lead least.
func (c *cluster) firstLeader(s *shard, prices []int64, count []int) int {
	price, best := c.number(1), none
	for _, n := range s.nodes {
		switch {
		case prices[n] == never:
		case prices[n] == 0:
			return n
		case best == none || price(n, count[n]) < price(best, count[best]):
			best = n
		}
	}
	return best
}
