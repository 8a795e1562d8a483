package placement

import (
	"errors"
	"fmt"
	"slices"
)

// Replicas is the placement of one shard.
type Replicas struct {
	Nodes     []string // sorted
	Preferred string   // the one of Nodes that should lead
}

// Target returns the placement that the shards should have. A shard without nodes is new. The package's documentation
// names the rules. Target of a target is the target itself.
//
// The result depends on the nodes and on the placement of each shard, not on the order of nodes.
func Target(nodes []Node, present []Replicas, replication int) ([]Replicas, error) {
	c, err := newCluster(nodes)
	if err != nil {
		return nil, err
	}
	shards, err := c.shardsOf(present, replication)
	if err != nil {
		return nil, err
	}
	c.place(shards)
	c.elect(shards)
	target := make([]Replicas, len(shards))
	for i, s := range shards {
		c.keepLeaving(s, replication)
		target[i] = c.replicasOf(s)
	}
	return target, nil
}

// shard holds the present replicas of one shard, the rules for it, and its target as far as it is decided.
type shard struct {
	held      []int // the listed nodes with a replica, the preferred one first
	preferred int   // none if no listed node is preferred
	want      int   // number of replicas on nodes that may hold one
	spread
	leader int
}

const none = -1

func (c *cluster) shardsOf(present []Replicas, replication int) ([]*shard, error) {
	switch {
	case len(present) == 0:
		return nil, errors.New("no shards to place")
	case replication < 1:
		return nil, fmt.Errorf("replication %d: at least 1", replication)
	}
	shards := make([]*shard, len(present))
	for i, r := range present {
		s, err := c.shardOf(r, replication)
		if err != nil {
			return nil, fmt.Errorf("shard at %d: %w", i, err)
		}
		shards[i] = s
	}
	return shards, nil
}

func (c *cluster) shardOf(r Replicas, replication int) (*shard, error) {
	s := &shard{preferred: none, leader: none}
	for _, id := range slices.Sorted(slices.Values(r.Nodes)) {
		n, listed := c.index[id]
		switch {
		case !listed:
			continue
		case slices.Contains(s.held, n):
			return nil, fmt.Errorf("node %s is named twice", id)
		case id == r.Preferred:
			s.preferred = n
			s.held = slices.Insert(s.held, 0, n)
		default:
			s.held = append(s.held, n)
		}
	}
	s.want = c.demand(s, replication)
	s.spread = c.spreadOf(s)
	return s, nil
}

// demand returns the number of a shard's replicas on nodes that may hold one: the largest odd number up to the
// replication factor. With two nodes this is one; a shard that has two replicas keeps them.
func (c *cluster) demand(s *shard, replication int) int {
	may, has := 0, 0
	for n := range c.nodes {
		if c.mayHold(s, n) {
			may++
			if slices.Contains(s.held, n) {
				has++
			}
		}
	}
	effective := (min(replication, may)-1)/2*2 + 1
	if effective == 1 {
		return max(1, min(replication, has))
	}
	return effective
}

// mayHold reports whether the target of a shard may have a replica on the node. See keepLeaving for other nodes.
func (c *cluster) mayHold(s *shard, node int) bool {
	switch c.nodes[node].State {
	case Active:
		return true
	case Absent:
		return slices.Contains(s.held, node)
	}
	return false
}

// spreadOf returns the nodes that may hold the shard, and the number of replicas that it may have in each zone. No zone
// gets one more than another zone that could have taken it.
func (c *cluster) spreadOf(s *shard) spread {
	room := make([]int, len(c.zones))
	sp := spread{prices: make([]int64, len(c.nodes)), zones: make([]between, len(room)), filled: make([]int, len(room))}
	for n := range c.nodes {
		if c.mayHold(s, n) {
			room[c.zone[n]]++
		} else {
			sp.prices[n] = never
		}
	}
	full, rest := level(room, s.want)
	for z, r := range room {
		sp.zones[z] = between{min(r, full), min(r, full+min(rest, 1))}
	}
	return sp
}

// level fills zones evenly. It returns the number of replicas that each zone has that has the room, and the number of
// those left, which is too small to give one more to each zone that has the room.
func level(room []int, replicas int) (full, rest int) {
	for rest = replicas; rest > 0; full++ {
		takes := 0
		for _, r := range room {
			if r > full {
				takes++
			}
		}
		if takes > rest {
			break
		}
		rest -= takes
	}
	return full, rest
}

// keepLeaving keeps one replica on a node that should give it up, if the shard has an even number of replicas without
// it: there is no node that could take its place. A draining node is preferred to a lost one.
func (c *cluster) keepLeaving(s *shard, replication int) {
	if len(s.nodes)%2 != 0 || len(s.nodes) >= replication {
		return
	}
	best := none
	for _, n := range s.held {
		if c.nodes[n].State.leaves() && (best == none || c.nodes[n].State > c.nodes[best].State) {
			best = n
		}
	}
	if best != none {
		s.nodes = append(s.nodes, best)
	}
}

func (c *cluster) replicasOf(s *shard) Replicas {
	r := Replicas{Preferred: c.nodes[s.leader].ID}
	for _, n := range s.nodes {
		r.Nodes = append(r.Nodes, c.nodes[n].ID)
	}
	slices.Sort(r.Nodes)
	return r
}
