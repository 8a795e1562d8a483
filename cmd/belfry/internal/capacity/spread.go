package capacity

import (
	"fmt"
	"math"

	"github.com/belfryhq/belfry/cluster/placement"
)

// shape is a cluster whose nodes all lead the same number of shards.
type shape struct {
	nodes, replication int
	perNode            int // shards that each node leads
}

func (s shape) shards() int { return s.nodes * s.perNode }

// copies returns the actual number of replicas of a shard.
func (s shape) copies() int { return min(s.replication, s.nodes) }

// replicas returns the number of replicas that each node holds.
func (s shape) replicas() int { return s.perNode * s.copies() }

// lost returns how many nodes may be lost at once: a zone's or one. With fewer than three replicas it is none.
func (s shape) lost(zones int) int {
	switch {
	case s.copies() < 3:
		return 0
	case zones > 1:
		return min((s.nodes+zones-1)/zones, s.nodes-1)
	}
	return 1
}

// leadersAfter returns how many shards the busiest remaining node leads on average after the loss of this many nodes.
// If one node is lost, the placement gives the nodes that share shards with it. If a zone is lost, it does not.
func (s shape) leadersAfter(lost int) (float64, error) {
	switch {
	case lost == 0:
		return float64(s.perNode), nil
	case lost > 1:
		return math.Ceil(float64(s.perNode*s.nodes) / float64(s.nodes-lost)), nil
	}
	nodes := make([]placement.Node, s.nodes)
	for i := range nodes {
		nodes[i] = placement.Node{ID: fmt.Sprintf("%03d", i), Weight: placement.DefaultWeight}
	}
	placed, err := placement.Target(nodes, make([]placement.Replicas, s.shards()), s.replication)
	if err != nil {
		return 0, err
	}
	inherits := make(map[[2]string]float64) // by lost node and following leader
	most := 0.0
	for _, r := range placed {
		for _, heir := range r.Nodes {
			if heir != r.Preferred {
				pair := [2]string{r.Preferred, heir}
				inherits[pair] += 1 / float64(len(r.Nodes)-1)
				most = max(most, inherits[pair])
			}
		}
	}
	return float64(s.perNode) + most, nil
}
