package placement

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/belfryhq/belfry/internal/assert"
)

func TestCompare(t *testing.T) {
	present := []Replicas{{[]string{"a", "b", "c"}, "a"}, {[]string{"a", "b", "c"}, "b"}}
	target := []Replicas{{[]string{"b", "c", "d"}, "d"}, {[]string{"a", "b", "c"}, "b"}, {[]string{"a", "d"}, "a"}}
	change := Compare(present, target)
	wantMoves := []Move{
		{0, Add, "d"}, {0, Lead, "d"}, {0, Remove, "a"}, {2, Add, "a"}, {2, Add, "d"}, {2, Lead, "a"},
	}
	wantNodes := []Tally{
		{"a", Load{2, 1}, Load{2, 1}, 1, 1}, {"b", Load{2, 1}, Load{2, 1}, 0, 0},
		{"c", Load{2, 0}, Load{2, 0}, 0, 0}, {"d", Load{0, 0}, Load{2, 1}, 2, 0},
	}
	assert.EqualSlices(t, change.Moves, wantMoves, "moves")
	assert.EqualSlices(t, change.Nodes, wantNodes, "nodes")
}

// The moves lead from the present placement to the target, and the tallies agree with them.
func TestMovesLeadToTheTarget(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t, Active, Active, Active, Lost, Draining)
		want := target(t, w)
		change := Compare(w.present, want)
		for _, n := range change.Nodes {
			assert.MustEqual(t, n.Before.Replicas+n.Adds-n.Removes, n.After.Replicas, "%+v does not add up", n)
		}
		for _, m := range change.Moves {
			w.present = apply(w.present, m)
		}
		for i := range want {
			slices.Sort(w.present[i].Nodes)
		}
		assert.MustEqual(t, fmt.Sprint(w.present), fmt.Sprint(want), "the moves lead to")
	})
}

func apply(present []Replicas, m Move) []Replicas {
	after := slices.Clone(present)
	r := &after[m.Shard]
	switch m.Action {
	case Add:
		r.Nodes = append(slices.Clone(r.Nodes), m.Node)
	case Lead:
		r.Preferred = m.Node
	case Remove:
		r.Nodes = slices.DeleteFunc(slices.Clone(r.Nodes), func(n string) bool { return n == m.Node })
	}
	return after
}
