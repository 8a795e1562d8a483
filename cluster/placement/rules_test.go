package placement

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// Each shard has distinct nodes, as many as the effective factor, and is led by one of them.
func TestReplicasAreOnDistinctNodes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t, Active, Active, Active, Absent, Draining)
		for i, r := range target(t, w) {
			may := idsOf(able(w.nodes, w.present[i]))
			want := odd(min(w.replication, len(may)))
			if want == 1 {
				want = max(1, min(w.replication, len(both(w.present[i].Nodes, may)))) // two replicas stay
			}
			if got := len(both(r.Nodes, may)); got != want || len(r.Nodes) > want && (want != 2 || len(r.Nodes) > 3) {
				t.Fatalf("shard %d on %v, want %d of %v", i, r.Nodes, want, may)
			}
			if !slices.IsSorted(r.Nodes) || len(slices.Compact(slices.Clone(r.Nodes))) != len(r.Nodes) {
				t.Fatalf("shard %d on %v: not distinct nodes, sorted", i, r.Nodes)
			}
			if !slices.Contains(r.Nodes, r.Preferred) {
				t.Fatalf("shard %d prefers %q, which is not of %v", i, r.Preferred, r.Nodes)
			}
		}
	})
}

// odd returns the largest odd number up to n.
func odd(n int) int {
	if n%2 == 0 {
		return n - 1
	}
	return n
}

// both returns the nodes that are in both lists.
func both(nodes, others []string) []string {
	return slices.DeleteFunc(slices.Clone(nodes), func(n string) bool { return !slices.Contains(others, n) })
}

// No zone has two replicas more than another that has a node to take one.
func TestReplicasAreSpreadOverZones(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t, Active, Active, Active, Absent, Draining)
		for i, r := range target(t, w) {
			if may := able(w.nodes, w.present[i]); !zonesAreEven(may, r.Nodes) {
				t.Fatalf("shard %d is on %v of %v", i, r.Nodes, may)
			}
		}
	})
}

// With three zones or more, each with nodes enough, no zone has a majority of a shard's replicas, nor of the voters.
func TestNoZoneHasAMajority(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		replication := rapid.SampledFrom([]int{3, 5, 7}).Draw(t, "replication")
		var nodes []Node
		for z := range rapid.IntRange(3, 6).Draw(t, "zones") {
			for range rapid.IntRange(3, 8).Draw(t, "nodes") {
				weight := rapid.IntRange(MinWeight, MaxWeight).Draw(t, "weight")
				nodes = append(nodes, Node{ID: fmt.Sprintf("n%02d", len(nodes)), Zone: fmt.Sprintf("z%d", z), Weight: weight})
			}
		}
		placed := target(t, world{nodes, drawPresent(t, nodes), replication})
		voters, err := Voters(nodes, placed[0].Nodes)
		if err != nil {
			t.Fatal(err)
		}
		for i, r := range append(placed, Replicas{Nodes: voters}) {
			in := make(map[string]int)
			for _, n := range nodes {
				if slices.Contains(r.Nodes, n.ID) {
					in[n.Zone]++
				}
			}
			for zone, count := range in {
				if count > len(r.Nodes)/2 {
					t.Fatalf("zone %s has %d of %d replicas of group %d: %v", zone, count, len(r.Nodes), i, r.Nodes)
				}
			}
		}
	})
}

// No exchange makes the numbers of replicas more even for their weights: a node that has too many has no chain of moves
// to a node that has too few.
func TestReplicasFollowWeights(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t, Active, Active, Active, Draining)
		placed := target(t, w)
		count, next := held(placed), make(map[string]map[string]bool)
		for i, r := range placed {
			may := able(w.nodes, w.present[i])
			for _, from := range may {
				for _, to := range may {
					if slices.Contains(r.Nodes, from.ID) && !slices.Contains(r.Nodes, to.ID) && mayCross(may, r, from, to) {
						link(next, from.ID, to.ID)
					}
				}
			}
		}
		checkEven(t, w.nodes, count, next)
	})
}

// mayCross reports whether the rule of zones lets a replica move.
func mayCross(may []Node, r Replicas, from, to Node) bool {
	moved := []string{to.ID}
	for _, n := range r.Nodes {
		if n != from.ID {
			moved = append(moved, n)
		}
	}
	return zonesAreEven(may, moved)
}

// zonesAreEven reports whether no zone has two of the nodes more than another that has room for one.
func zonesAreEven(may []Node, nodes []string) bool {
	room, filled := make(map[string]int), make(map[string]int)
	for _, n := range may {
		room[zoneOf(n)]++
		if slices.Contains(nodes, n.ID) {
			filled[zoneOf(n)]++
		}
	}
	for full := range room {
		for other := range room {
			if filled[full] > filled[other]+1 && room[other] > filled[other] {
				return false
			}
		}
	}
	return true
}

func link(next map[string]map[string]bool, from, to string) {
	if next[from] == nil {
		next[from] = make(map[string]bool)
	}
	next[from][to] = true
}

// checkEven fails if a unit can go from a node to another, by steps, and their numbers are then nearer to their
// weights.
func checkEven(t rapid.TB, nodes []Node, count map[string]int, next map[string]map[string]bool) {
	t.Helper()
	for _, from := range nodes {
		reached := reach(next, from.ID)
		for _, to := range nodes {
			if reached[to.ID] && (2*count[from.ID]-1)*to.Weight > (2*count[to.ID]+1)*from.Weight {
				t.Fatalf("%v has %d and %v has %d", from, count[from.ID], to, count[to.ID])
			}
		}
	}
}

func reach(next map[string]map[string]bool, from string) map[string]bool {
	seen := map[string]bool{from: true}
	for queue := []string{from}; len(queue) > 0; queue = queue[1:] {
		for to := range next[queue[0]] {
			if !seen[to] {
				seen[to], queue = true, append(queue, to)
			}
		}
	}
	return seen
}

// Where neither nodes nor zones are full, numbers follow weights within one: between any two nodes, moving a unit would
// not bring them nearer. Of nodes of equal weight, no two differ by more than one.
func TestWeightsWithoutZones(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := world{replication: rapid.IntRange(1, 5).Draw(t, "replication")}
		for i := range rapid.IntRange(2*w.replication, 40).Draw(t, "nodes") {
			weight := rapid.IntRange(10, 19).Draw(t, "weight")
			w.nodes = append(w.nodes, Node{ID: fmt.Sprintf("n%03d", i), Weight: weight})
		}
		w.present = drawPresent(t, w.nodes)
		placed, all := target(t, w), make(map[string]map[string]bool)
		for _, n := range w.nodes {
			for _, m := range w.nodes {
				link(all, n.ID, m.ID)
			}
		}
		checkEven(t, w.nodes, held(placed), all)
	})
}

// checkPart fails unless got is a/b, rounded up or down.
func checkPart(t rapid.TB, what string, got, a, b int) {
	t.Helper()
	if got < a/b || got > (a+b-1)/b {
		t.Fatalf("%s: %d, want %d/%d, rounded up or down", what, got, a, b)
	}
}

// Five nodes in three zones: the node that is alone in its zone holds all shards, and still leads no more than others.
func TestLeadsFollowWeightsWhereReplicasCannot(t *testing.T) {
	nodes := []Node{{"a1", "a", 10, 0}, {"a2", "a", 10, 0}, {"b1", "b", 10, 0}, {"b2", "b", 10, 0}, {"c1", "c", 10, 0}}
	placed := target(t, world{nodes, make([]Replicas, 20), 3})
	if got := held(placed); !maps.Equal(got, map[string]int{"a1": 10, "a2": 10, "b1": 10, "b2": 10, "c1": 20}) {
		t.Errorf("replicas: %v", got)
	}
	for n, count := range led(placed) {
		if count != 4 {
			t.Errorf("%s leads %d shards, not 4", n, count)
		}
	}
}

// No exchange of leaders makes their numbers more even.
func TestLeadsAreAsEvenAsReplicasAllow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t, Active, Active, Active, Draining)
		placed, next := target(t, w), make(map[string]map[string]bool)
		for i, r := range placed {
			for _, n := range both(r.Nodes, idsOf(able(w.nodes, w.present[i]))) {
				link(next, r.Preferred, n)
			}
		}
		checkEven(t, w.nodes, led(placed), next)
	})
}

func TestTargetOfATargetIsTheSame(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t, Active, Active, Active, Absent, Lost, Draining)
		first := target(t, w)
		w.present = first
		if again := target(t, w); fmt.Sprint(again) != fmt.Sprint(first) {
			t.Fatalf("%v\nbecame\n%v", first, again)
		}
	})
}

func TestOrderDoesNotMatter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t, Active, Active, Active, Absent, Lost, Draining)
		first := target(t, w)
		w.nodes = rapid.Permutation(w.nodes).Draw(t, "nodes")
		for i := range w.present {
			w.present[i].Nodes = rapid.Permutation(w.present[i].Nodes).Draw(t, "held")
		}
		if again := target(t, w); fmt.Sprint(again) != fmt.Sprint(first) {
			t.Fatalf("%v\nbecame\n%v", first, again)
		}
	})
}
