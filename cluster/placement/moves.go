package placement

import (
	"maps"
	"slices"
)

// Action is the kind of a Move.
type Action string

// The actions, in the order in which a shard takes them.
const (
	Add    Action = "add"    // a node gets a replica
	Lead   Action = "lead"   // a node becomes the preferred leader
	Remove Action = "remove" // a node gives up its replica
)

// Move is one change of a shard's placement.
type Move struct {
	Shard  int // index in the placement
	Action Action
	Node   string
}

// Change compares a placement with its target.
type Change struct {
	Moves []Move  // by shard; of one shard first Add, then Lead, then Remove, each by node
	Nodes []Tally // by node; all nodes of either placement
}

// Tally counts the replicas and preferred leaderships of one node, and its moves.
type Tally struct {
	Node          string
	Before, After Load
	Adds, Removes int
}

// Load is a node's number of replicas, and of shards that it should lead.
type Load struct{ Replicas, Leads int }

// Compare returns the change from the present placement to the target. A shard at the end of the target that the
// present placement lacks is new.
func Compare(present, target []Replicas) Change {
	t := tallies{}
	t.count(present, func(t *Tally) *Load { return &t.Before })
	t.count(target, func(t *Tally) *Load { return &t.After })
	var c Change
	for i, after := range target {
		var before Replicas
		if i < len(present) {
			before = present[i]
		}
		c.Moves = append(c.Moves, moves(i, before, after)...)
	}
	for _, m := range c.Moves {
		if m.Action == Add {
			t.of(m.Node).Adds++
		}
		if m.Action == Remove {
			t.of(m.Node).Removes++
		}
	}
	for _, node := range slices.Sorted(maps.Keys(t)) {
		c.Nodes = append(c.Nodes, *t[node])
	}
	return c
}

func moves(shard int, before, after Replicas) []Move {
	var all []Move
	for _, n := range less(after.Nodes, before.Nodes) {
		all = append(all, Move{shard, Add, n})
	}
	if after.Preferred != before.Preferred {
		all = append(all, Move{shard, Lead, after.Preferred})
	}
	for _, n := range less(before.Nodes, after.Nodes) {
		all = append(all, Move{shard, Remove, n})
	}
	return all
}

// less returns the nodes that are not among the others, sorted.
func less(nodes, others []string) []string {
	in := func(n string) bool { return slices.Contains(others, n) }
	return slices.Sorted(slices.Values(slices.DeleteFunc(slices.Clone(nodes), in)))
}

type tallies map[string]*Tally

func (t tallies) of(node string) *Tally {
	if t[node] == nil {
		t[node] = &Tally{Node: node}
	}
	return t[node]
}

func (t tallies) count(placed []Replicas, load func(*Tally) *Load) {
	for _, r := range placed {
		for _, n := range r.Nodes {
			load(t.of(n)).Replicas++
		}
		if r.Preferred != "" {
			load(t.of(r.Preferred)).Leads++
		}
	}
}
