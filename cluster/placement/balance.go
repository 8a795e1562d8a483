package placement

import "slices"

// worthwhile is the part of a node's mean load by which the higher load of two nodes must fall for an exchange of
// leaderships. Calls wait for a moment at each exchange.
const worthwhile = 0.2

// Exchange returns the two shards that should exchange their preferred leaders, so that the leaders' loads become more
// even. load has the load of each shard, in any unit. A node's load is the sum of the shards that it should lead, for
// its weight. The number of leaderships of each node stays, and so Target agrees with the result. Exchange returns
// false if no exchange is worth while.
func Exchange(nodes []Node, present []Replicas, load []float64) (a, b int, ok bool) {
	c, err := newCluster(nodes)
	if err != nil {
		return 0, 0, false
	}
	loads := c.loads(present, load)
	mean := 0.0
	for _, l := range loads {
		mean += l / float64(len(loads))
	}
	least := worthwhile * mean
	for i, s := range present {
		for j, t := range present {
			if gain := c.gain(s, t, load[i], load[j], loads); i < j && gain > least {
				a, b, ok, least = i, j, true, gain
			}
		}
	}
	return a, b, ok
}

// loads returns the load of each node for its weight.
func (c *cluster) loads(present []Replicas, load []float64) []float64 {
	loads := make([]float64, len(c.nodes))
	for i, s := range present {
		if n, listed := c.index[s.Preferred]; listed {
			loads[n] += load[i] / float64(c.nodes[n].Weight)
		}
	}
	return loads
}

// gain returns by how much the higher load of the leaders of two shards falls when they exchange them. It is 0 if they
// may not.
func (c *cluster) gain(s, t Replicas, loadS, loadT float64, loads []float64) float64 {
	from, fromListed := c.index[s.Preferred]
	to, toListed := c.index[t.Preferred]
	if !fromListed || !toListed || from == to || !slices.Contains(s.Nodes, t.Preferred) ||
		!slices.Contains(t.Nodes, s.Preferred) || c.nodes[from].State != Active || c.nodes[to].State != Active {
		return 0
	}
	moved := loadS - loadT
	after := max(loads[from]-moved/float64(c.nodes[from].Weight), loads[to]+moved/float64(c.nodes[to].Weight))
	return max(loads[from], loads[to]) - after
}
