package placement

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestExchangesEvenTheLoad checks that each exchange lowers the nodes' highest loads, so that exchanges come to an end,
// and that the placement agrees with their result.
func TestExchangesEvenTheLoad(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var nodes []Node
		for i := range rapid.IntRange(2, 7).Draw(t, "nodes") {
			nodes = append(nodes, Node{
				ID: fmt.Sprint("n", i), Weight: rapid.IntRange(5, 20).Draw(t, "weight"),
				State: rapid.SampledFrom([]State{Active, Active, Active, Absent}).Draw(t, "state"),
			})
		}
		nodes[0].State = Active
		present, err := Target(nodes, make([]Replicas, rapid.IntRange(1, 24).Draw(t, "shards")), 3)
		if err != nil {
			t.Fatal(err)
		}
		var load []float64
		for range present {
			load = append(load, float64(rapid.SampledFrom([]int{0, 1, 10, 11, 100}).Draw(t, "load")))
		}
		before := peaks(nodes, present, load)
		for i := 0; ; i++ {
			a, b, ok := Exchange(nodes, present, load)
			if !ok {
				return
			}
			present[a].Preferred, present[b].Preferred = present[b].Preferred, present[a].Preferred
			after := peaks(nodes, present, load)
			if slices.Compare(after, before) >= 0 {
				t.Fatalf("exchange %d of shards %d and %d: %v became %v", i, a, b, before, after)
			}
			before = after
			again, err := Target(nodes, present, 3)
			if err != nil || !slices.EqualFunc(again, present, func(x, y Replicas) bool { return x.Preferred == y.Preferred }) {
				t.Fatalf("%v became %v, %v", present, again, err)
			}
		}
	})
}

// peaks returns the nodes' loads for their weights, the highest first.
func peaks(nodes []Node, present []Replicas, load []float64) []float64 {
	var all []float64
	for _, n := range nodes {
		l := 0.0
		for i, s := range present {
			if s.Preferred == n.ID {
				l += load[i]
			}
		}
		all = append(all, -l/float64(n.Weight))
	}
	slices.Sort(all)
	for i := range all {
		all[i] = -all[i]
	}
	return all
}

// TestSmallDifferencesStay checks that an exchange must be worth while.
func TestSmallDifferencesStay(t *testing.T) {
	nodes := []Node{{ID: "a", Weight: 10}, {ID: "b", Weight: 10}}
	present := []Replicas{
		{[]string{"a", "b"}, "a"}, {[]string{"a", "b"}, "a"}, {[]string{"a", "b"}, "b"}, {[]string{"a", "b"}, "b"},
	}
	if a, b, ok := Exchange(nodes, present, []float64{11, 11, 10, 10}); ok {
		t.Errorf("shards %d and %d for 5 percent", a, b)
	}
	if a, b, ok := Exchange(nodes, present, []float64{50, 50, 10, 10}); !ok || a > 1 || b < 2 {
		t.Errorf("shards %d and %d, %v", a, b, ok)
	}
	present[0].Nodes, present[1].Nodes = []string{"a"}, []string{"a"}
	if a, b, ok := Exchange(nodes, present, []float64{50, 50, 10, 10}); ok {
		t.Errorf("shards %d and %d, which have no common node", a, b)
	}
}
