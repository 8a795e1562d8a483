package capacity

import (
	"fmt"
	"math"

	"github.com/belfryhq/belfry/cluster/placement"
)

// shape is a cluster in which every node leads as many shards as any other.
type shape struct {
	nodes, replication int
	perNode            int // shards that each node leads
}

func (s shape) shards() int { return s.nodes * s.perNode }

// copies is how many replicas a shard really has.
func (s shape) copies() int { return min(s.replication, s.nodes) }

// replicas is how many each node holds.
func (s shape) replicas() int { return s.perNode * s.copies() }

// lost is how many nodes may be gone at once: a zone's, or one; with a single replica none.
func (s shape) lost(zones int) int {
	switch {
	case s.copies() < 3:
		return 0
	case zones > 1:
		return min((s.nodes+zones-1)/zones, s.nodes-1)
	}
	return 1
}

// leadersAfter is how many shards the busiest of those left leads on average, when so many nodes are gone. Of one lost
// node it is known who shares shards with it; of a zone's nodes it is not.
func (s shape) leadersAfter(lost int) (float64, error) {
	switch {
	case lost == 0:
		return float64(s.perNode), nil
	case lost > 1:
		return math.Ceil(float64(s.perNode*s.nodes) / float64(s.nodes-lost)), nil
	}
	names := make([]string, s.nodes)
	for i := range names {
		names[i] = fmt.Sprintf("%03d", i)
	}
	placed, err := placement.Place(s.shards(), s.replication, names)
	if err != nil {
		return 0, err
	}
	inherits := make(map[[2]string]float64) // by who is lost, and who follows
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
