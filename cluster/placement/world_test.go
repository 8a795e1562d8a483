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

// world is a drawn cluster with a present placement.
type world struct {
	nodes       []Node
	present     []Replicas
	replication int
}

// drawNodes draws a cluster in which at least one node is active.
func drawNodes(t *rapid.T, states ...State) []Node {
	zones := rapid.IntRange(0, 6).Draw(t, "zones")
	most := rapid.SampledFrom([]int{4, 8, 8, 20, 50}).Draw(t, "most nodes")
	equal := rapid.Bool().Draw(t, "equal weights")
	nodes := make([]Node, rapid.IntRange(1, most).Draw(t, "nodes"))
	for i := range nodes {
		n := Node{ID: fmt.Sprintf("n%03d", i), Weight: DefaultWeight}
		if zones > 0 {
			n.Zone = []string{"", "a", "b", "c", "d", "e", "f"}[rapid.IntRange(0, zones).Draw(t, "zone")]
		}
		if !equal {
			n.Weight = rapid.IntRange(MinWeight, MaxWeight).Draw(t, "weight")
		}
		if i > 0 && len(states) > 0 {
			n.State = rapid.SampledFrom(states).Draw(t, "state")
		}
		nodes[i] = n
	}
	return nodes
}

// drawPresent draws a placement that a cluster may have: none, a target of other times, or an arbitrary one.
func drawPresent(t *rapid.T, nodes []Node) []Replicas {
	most := 40
	if len(nodes) > 30 {
		most = 120
	}
	present := make([]Replicas, rapid.IntRange(1, most).Draw(t, "shards"))
	switch rapid.SampledFrom([]string{"new", "target", "arbitrary"}).Draw(t, "present") {
	case "target":
		before := slices.Clone(nodes)
		for i := range before {
			before[i].State = Active
			if i > 0 && rapid.IntRange(0, 4).Draw(t, "was away") == 0 {
				before[i].State = Draining
			}
		}
		present = target(t, world{before, present, rapid.IntRange(1, 5).Draw(t, "replication before")})
		for range rapid.IntRange(0, 3).Draw(t, "new shards") {
			present = append(present, Replicas{})
		}
	case "arbitrary":
		ids := append(idsOf(nodes), "gone-1", "gone-2")
		for i := range present {
			held := rapid.SliceOfNDistinct(rapid.SampledFrom(ids), 0, min(len(ids), 6), rapid.ID).Draw(t, "held")
			present[i].Nodes = held
			if len(held) > 0 {
				present[i].Preferred = held[0]
			}
		}
	}
	return present
}

func drawWorld(t *rapid.T, states ...State) world {
	nodes := drawNodes(t, states...)
	return world{nodes, drawPresent(t, nodes), rapid.IntRange(1, 7).Draw(t, "replication")}
}

func target(t rapid.TB, w world) []Replicas {
	t.Helper()
	placed, err := Target(w.nodes, w.present, w.replication)
	if err != nil {
		t.Fatal(err)
	}
	return placed
}

func idsOf(nodes []Node) []string {
	var ids []string
	for _, n := range nodes {
		ids = append(ids, n.ID)
	}
	return ids
}

// held returns the number of replicas of each node, and led the number of preferred leaderships.
func held(placed []Replicas) map[string]int {
	count := make(map[string]int)
	for _, r := range placed {
		for _, n := range r.Nodes {
			count[n]++
		}
	}
	return count
}

func led(placed []Replicas) map[string]int {
	count := make(map[string]int)
	for _, r := range placed {
		count[r.Preferred]++
	}
	return count
}

// copies returns the number of replicas that the target has and the present placement lacks.
func copies(present, target []Replicas) int {
	n := 0
	for i, r := range target {
		for _, node := range r.Nodes {
			if !slices.Contains(present[i].Nodes, node) {
				n++
			}
		}
	}
	return n
}

// able returns the nodes that may hold a replica of a shard: active ones, and absent ones that hold one.
func able(nodes []Node, present Replicas) []Node {
	return slices.DeleteFunc(slices.Clone(nodes), func(n Node) bool {
		return n.State > Absent || n.State == Absent && !slices.Contains(present.Nodes, n.ID)
	})
}

// zoneOf returns the zone of a node: an id of its own if it names none.
func zoneOf(n Node) string {
	if n.Zone == "" {
		return "node " + n.ID
	}
	return n.Zone
}

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
