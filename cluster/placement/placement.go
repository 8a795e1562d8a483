package placement

import (
	"fmt"
	"slices"
)

// Replicas is the placement of one shard.
type Replicas struct {
	Nodes     []string // sorted
	Preferred string   // one of Nodes
}

// Range is the slots [First, End).
type Range struct {
	First, End uint32
}

// Place puts each shard on min(replication, len(nodes)) of the nodes, which must be distinct. The nodes' numbers of
// replicas differ by at most one, and so do their numbers of preferred leaderships. The order of nodes does not matter.
func Place(shards, replication int, nodes []string) ([]Replicas, error) {
	ring := slices.Sorted(slices.Values(nodes))
	switch {
	case shards < 1:
		return nil, fmt.Errorf("%d shards to place", shards)
	case replication < 1:
		return nil, fmt.Errorf("%d replicas of each shard", replication)
	case len(ring) == 0:
		return nil, fmt.Errorf("no nodes to place shards on")
	case len(slices.Compact(slices.Clone(ring))) != len(ring):
		return nil, fmt.Errorf("a node is named twice in %v", nodes)
	}
	placed := make([]Replicas, shards)
	for shard := range placed {
		placed[shard] = place(shard, min(replication, len(ring)), ring)
	}
	return placed, nil
}

// place deals the ring out like cards: shard after shard takes the next few nodes. A round ends when the first nodes of
// its shards begin to repeat; these are every stride-th node of the ring. So each round prefers the next of a shard's
// nodes as the leader, until each node has been preferred once.
func place(shard, replicas int, ring []string) Replicas {
	stride := gcd(replicas, len(ring))
	round := shard / (len(ring) / stride)
	first := shard * replicas
	r := Replicas{Preferred: ring[(first+round%stride)%len(ring)]}
	for i := range replicas {
		r.Nodes = append(r.Nodes, ring[(first+i)%len(ring)])
	}
	slices.Sort(r.Nodes)
	return r
}

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// Split cuts the slots into one contiguous range for each shard. The ranges' sizes differ by at most one slot.
func Split(slots, shards int) ([]Range, error) {
	if shards < 1 || shards > slots {
		return nil, fmt.Errorf("%d shards cannot share %d slots", shards, slots)
	}
	ranges := make([]Range, shards)
	for i := range ranges {
		ranges[i] = Range{First: uint32(i * slots / shards), End: uint32((i + 1) * slots / shards)}
	}
	return ranges, nil
}
