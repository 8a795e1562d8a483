package placement

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func names(n int) []string {
	nodes := make([]string, n)
	for i := range nodes {
		nodes[i] = fmt.Sprintf("node-%03d", i)
	}
	return nodes
}

func TestPlaceSpreadsEvenly(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		nodes := names(rapid.IntRange(1, 50).Draw(t, "nodes"))
		shards := rapid.IntRange(1, 200).Draw(t, "shards")
		replication := rapid.IntRange(1, 7).Draw(t, "replication")
		placed, err := Place(shards, replication, nodes)
		if err != nil {
			t.Fatal(err)
		}
		if len(placed) != shards {
			t.Fatalf("%d shards placed", len(placed))
		}
		held, preferred := make(map[string]int), make(map[string]int)
		for shard, r := range placed {
			checkReplicas(t, shard, r, min(replication, len(nodes)))
			preferred[r.Preferred]++
			for _, n := range r.Nodes {
				held[n]++
			}
		}
		checkSpread(t, "replicas", nodes, held)
		checkSpread(t, "preferred leaders", nodes, preferred)
	})
}

func checkReplicas(t *rapid.T, shard int, r Replicas, want int) {
	if len(r.Nodes) != want || len(slices.Compact(slices.Clone(r.Nodes))) != want || !slices.IsSorted(r.Nodes) {
		t.Fatalf("shard %d on %v, want %d distinct nodes, sorted", shard, r.Nodes, want)
	}
	if !slices.Contains(r.Nodes, r.Preferred) {
		t.Fatalf("shard %d prefers %s, which is not of %v", shard, r.Preferred, r.Nodes)
	}
}

func checkSpread(t rapid.TB, what string, nodes []string, count map[string]int) {
	low, high := count[nodes[0]], count[nodes[0]]
	for _, n := range nodes {
		low, high = min(low, count[n]), max(high, count[n])
	}
	if high-low > 1 {
		t.Fatalf("%s range from %d to %d: %v", what, low, high, count)
	}
}

// Two replicas of two shards are on both nodes, so the nodes differ only in their number of leaderships.
func TestTwoShardsPreferTwoNodes(t *testing.T) {
	nodes := names(2)
	placed, err := Place(2, 2, nodes)
	if err != nil {
		t.Fatal(err)
	}
	preferred := make(map[string]int)
	for _, r := range placed {
		preferred[r.Preferred]++
	}
	checkSpread(t, "preferred leaders", nodes, preferred)
}

func TestPlaceIsIndifferentToOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		nodes := names(rapid.IntRange(1, 9).Draw(t, "nodes"))
		shuffled := rapid.Permutation(nodes).Draw(t, "shuffled")
		a, errA := Place(12, 3, nodes)
		b, errB := Place(12, 3, shuffled)
		if errA != nil || errB != nil || fmt.Sprint(a) != fmt.Sprint(b) {
			t.Fatalf("%v (%v) and %v (%v)", a, errA, b, errB)
		}
	})
}

func TestPlaceKnownCases(t *testing.T) {
	for _, c := range []struct {
		nodes, replication, want int
	}{{1, 3, 1}, {3, 3, 3}, {5, 3, 3}, {2, 3, 2}} {
		placed, err := Place(12, c.replication, names(c.nodes))
		if err != nil || len(placed[0].Nodes) != c.want {
			t.Errorf("%d of %d nodes: %v, %v", c.replication, c.nodes, placed[0], err)
		}
	}
	for _, bad := range []struct {
		shards, replication int
		nodes               []string
	}{{0, 3, names(3)}, {12, 0, names(3)}, {12, 3, nil}, {12, 3, []string{"a", "b", "a"}}} {
		if _, err := Place(bad.shards, bad.replication, bad.nodes); err == nil {
			t.Errorf("%+v was placed", bad)
		}
	}
}

func TestSplitCoversEverySlotOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		slots := rapid.IntRange(1, 4096).Draw(t, "slots")
		shards := rapid.IntRange(1, slots).Draw(t, "shards")
		ranges, err := Split(slots, shards)
		if err != nil {
			t.Fatal(err)
		}
		next := uint32(0)
		for _, r := range ranges {
			size := int(r.End) - int(r.First)
			if r.First != next || size < slots/shards || size > slots/shards+1 {
				t.Fatalf("%v after %d", r, next)
			}
			next = r.End
		}
		if int(next) != slots {
			t.Fatalf("%d of %d slots covered", next, slots)
		}
	})
	if _, err := Split(4096, 0); err == nil {
		t.Error("no shards share the slots")
	}
	if _, err := Split(3, 4); err == nil {
		t.Error("four shards share three slots")
	}
}
