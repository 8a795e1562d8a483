package placement

import (
	"cmp"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// A search through all placements of a small cluster finds none that is more even, nor an equally even one with fewer
// copies.
func TestNoPlacementIsBetter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := world{replication: rapid.IntRange(1, 3).Draw(t, "replication")}
		for i := range rapid.IntRange(1, 5).Draw(t, "nodes") {
			w.nodes = append(w.nodes, Node{
				ID: fmt.Sprintf("n%d", i), Zone: rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "zone"),
				Weight: rapid.IntRange(1, 3).Draw(t, "weight"),
			})
		}
		w.present = make([]Replicas, rapid.IntRange(1, 3).Draw(t, "shards"))
		for i := range w.present {
			w.present[i].Nodes = rapid.SliceOfNDistinct(
				rapid.SampledFrom(idsOf(w.nodes)), 0, -1, rapid.ID).Draw(t, "held")
		}
		placed := target(t, w)
		got := cost{unevenness(w.nodes, held(placed)), copies(w.present, placed)}
		o := oracle{world: w, placed: slices.Clone(placed), best: cost{math.MaxInt, 0}}
		o.search(0)
		if got != o.best {
			t.Fatalf("%+v: %+v is possible", got, o.best)
		}
	})
}

// cost compares placements: the more even one is better, and then the one with fewer copies.
type cost struct{ unevenness, copies int }

// unevenness returns the sum of the squares of the nodes' numbers for their weights, times six: weights are 1 to 3.
func unevenness(nodes []Node, count map[string]int) int {
	sum := 0
	for _, n := range nodes {
		sum += count[n.ID] * count[n.ID] * 6 / n.Weight
	}
	return sum
}

// oracle tries each set of nodes for each shard. The numbers of replicas are those of the target.
type oracle struct {
	world
	placed []Replicas
	best   cost
}

func (o *oracle) search(shard int) {
	if shard == len(o.placed) {
		c := cost{unevenness(o.nodes, held(o.placed)), copies(o.present, o.placed)}
		if cmp.Or(cmp.Compare(c.unevenness, o.best.unevenness), cmp.Compare(c.copies, o.best.copies)) < 0 {
			o.best = c
		}
		return
	}
	want := len(o.placed[shard].Nodes)
	for set := range uint(1) << len(o.nodes) {
		nodes := o.nodesIn(set)
		if bits.OnesCount(set) == want && zonesAreEven(o.nodes, nodes) {
			o.placed[shard].Nodes = nodes
			o.search(shard + 1)
		}
	}
}

func (o *oracle) nodesIn(set uint) []string {
	var nodes []string
	for i, n := range o.nodes {
		if set&(1<<i) != 0 {
			nodes = append(nodes, n.ID)
		}
	}
	return nodes
}
