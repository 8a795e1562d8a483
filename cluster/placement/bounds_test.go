package placement

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// drawEven draws a cluster of equal weights: without zones, or with as many zones as a shard has replicas. Its placement
// has come about by nodes that joined and left. No zone lost its last node.
func drawEven(t *rapid.T) world {
	w := world{replication: rapid.SampledFrom([]int{1, 3, 3, 5}).Draw(t, "replication")}
	zones := rapid.SampledFrom([]int{0, w.replication}).Draw(t, "zones")
	w.nodes = zoned(rapid.IntRange(max(zones, 1), 40).Draw(t, "nodes"), zones)
	w.present = make([]Replicas, rapid.IntRange(1, 100).Draw(t, "shards"))
	w.present = target(t, w)
	for range rapid.IntRange(0, 4).Draw(t, "changes") {
		if rapid.Bool().Draw(t, "joins") {
			w = w.join(t)
		} else if len(w.nodes) > 1 && len(w.leavers()) > 0 {
			w, _ = w.without(rapid.SampledFrom(w.leavers()).Draw(t, "leaver"))
		}
		w.present = target(t, w)
	}
	return w
}

func (w world) join(t *rapid.T) world {
	n := Node{ID: fmt.Sprintf("%d", rapid.IntRange(1e6, 2e6).Filter(func(n int) bool {
		return !slices.Contains(idsOf(w.nodes), fmt.Sprintf("%d", n))
	}).Draw(t, "new")), Zone: rapid.SampledFrom(w.nodes).Draw(t, "beside").Zone, Weight: DefaultWeight}
	w.nodes = append(slices.Clone(w.nodes), n)
	return w
}

// leavers returns the indices of the nodes that leave no zone empty. With a zone less, the others hold more replicas of
// each shard, and a new shard can make the numbers of nodes uneven unless others move.
func (w world) leavers() []int {
	inZone := map[string]int{}
	for _, n := range w.nodes {
		inZone[n.Zone]++
	}
	var indices []int
	for i, n := range w.nodes {
		if n.Zone == "" || inZone[n.Zone] > 1 {
			indices = append(indices, i)
		}
	}
	return indices
}

func (w world) leave(t *rapid.T) (world, Node) {
	return w.without(rapid.IntRange(0, len(w.nodes)-1).Draw(t, "leaver"))
}

// without returns the world without a node, and the node.
func (w world) without(i int) (world, Node) {
	gone := w.nodes[i]
	w.nodes = slices.Delete(slices.Clone(w.nodes), i, i+1)
	return w, gone
}

// A node that joins gets its share, and nothing else is copied. When it makes more replicas possible, it gets these
// too.
func TestJoinMovesItsShare(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		before := drawEven(t)
		w := before.join(t)
		after, joined := target(t, w), w.nodes[len(w.nodes)-1].ID
		copied, more := copies(w.present, after), replicas(after)-replicas(w.present)
		if got := held(after)[joined]; more == 0 && copied != got {
			t.Fatalf("%d replicas are copied, %d of them to the new node", copied, got)
		} else if n := len(w.nodes); len(w.zones()) == 0 {
			checkPart(t, joined, got, replicas(after), n)
		}
		if share := replicas(after)/len(w.nodes) + 1; more > 0 && copied > more+share {
			t.Fatalf("%d replicas are copied, %d are new, and %d is the share", copied, more, share)
		}
	})
}

// A node of any weight that joins gets replicas from the others, which exchange none if they can give up distinct shards.
func TestJoinOfAnyWeightMovesItsShare(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := world{replication: rapid.SampledFrom([]int{1, 3, 5}).Draw(t, "replication")}
		for i := range rapid.IntRange(3*w.replication, 40).Draw(t, "nodes") {
			weight := rapid.IntRange(10, 19).Draw(t, "weight")
			w.nodes = append(w.nodes, Node{ID: fmt.Sprintf("n%03d", i), Weight: weight})
		}
		w.present = make([]Replicas, rapid.IntRange(1, 100).Draw(t, "shards"))
		w.present = target(t, w)
		w.nodes = append(w.nodes, Node{ID: "joined", Weight: rapid.IntRange(1, 19).Draw(t, "weight")})
		after := target(t, w)
		copied, got := copies(w.present, after), held(after)["joined"]
		if copied > 2*got || copied > got && mayGive(w.present, after) {
			t.Fatalf("%d replicas are copied, %d of them to the new node", copied, got)
		}
	})
}

// mayGive reports whether the nodes that hold fewer replicas after a join could give them up in distinct shards, as one
// node must that takes them all.
func mayGive(before, after []Replicas) bool {
	had, has := held(before), held(after)
	giver := make(map[int]string) // by shard
	for node, n := range had {
		for range n - has[node] {
			if !give(before, node, giver, make(map[int]bool)) {
				return false
			}
		}
	}
	return true
}

// give finds a shard for one replica that a node gives up. Other nodes give up others instead if they have to.
func give(before []Replicas, node string, giver map[int]string, tried map[int]bool) bool {
	for i, s := range before {
		if tried[i] || !slices.Contains(s.Nodes, node) {
			continue
		}
		tried[i] = true
		if other, taken := giver[i]; !taken || give(before, other, giver, tried) {
			giver[i] = node
			return true
		}
	}
	return false
}

func replicas(placed []Replicas) int {
	sum := 0
	for _, r := range placed {
		sum += len(r.Nodes)
	}
	return sum
}

func (w world) zones() []string {
	var zones []string
	for _, n := range w.nodes {
		if n.Zone != "" && !slices.Contains(zones, n.Zone) {
			zones = append(zones, n.Zone)
		}
	}
	return zones
}

// The replicas of a node that leaves are copied to others. Evenness may need one copy more for each of them, if the
// nodes that have too few hold the same shards as the one that leaves; it needs none in a cluster as it was formed.
func TestLeaveMovesItsReplicas(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		before := drawEven(t)
		if len(before.nodes) == 1 {
			return
		}
		w, gone := before.leave(t)
		if copied, had := copies(w.present, target(t, w)), held(w.present)[gone.ID]; copied > 2*had {
			t.Fatalf("%d replicas are copied, the node had %d", copied, had)
		}
	})
}

func TestLeaveOfANewClusterMovesItsReplicas(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := world{replication: rapid.SampledFrom([]int{1, 3, 3, 5}).Draw(t, "replication")}
		w.nodes = zoned(rapid.IntRange(w.replication+1, 40).Draw(t, "nodes"), 0)
		w.present = make([]Replicas, rapid.IntRange(1, 8).Draw(t, "shards a node")*len(w.nodes))
		w.present = target(t, w)
		w, gone := w.leave(t)
		if copied, had := copies(w.present, target(t, w)), held(w.present)[gone.ID]; copied != had {
			t.Fatalf("%d replicas are copied, the node had %d", copied, had)
		}
	})
}

// Nothing moves while nodes are away and are expected back.
func TestAbsenceMovesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawEven(t)
		for i := range w.nodes[1:] {
			w.nodes[i].State = rapid.SampledFrom([]State{Active, Absent}).Draw(t, "state")
		}
		if after := target(t, w); fmt.Sprint(after) != fmt.Sprint(w.present) {
			t.Fatalf("%v\nbecame\n%v", w.present, after)
		}
	})
}

// Without zones all present replicas stay when the replication factor rises, and nothing is copied when it falls.
func TestReplicationKeepsReplicas(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := world{nodes: zoned(rapid.IntRange(1, 30).Draw(t, "nodes"), 0), replication: 1}
		w.present = make([]Replicas, rapid.IntRange(1, 60).Draw(t, "shards"))
		w.present = target(t, w)
		for _, replication := range []int{3, 5, 3, 1} {
			more := len(w.present) * max(0, odd(min(replication, len(w.nodes)))-odd(min(w.replication, len(w.nodes))))
			w.replication = replication
			after := target(t, w)
			if copied := copies(w.present, after); copied != more {
				t.Fatalf("replication %d: %d replicas are copied, %d are enough", replication, copied, more)
			}
			w.present = after
		}
	})
}

// New shards leave the present ones where they are.
func TestNewShardsLeaveTheOthers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawEven(t)
		more := rapid.IntRange(1, 100).Draw(t, "more shards")
		w.present = append(w.present, make([]Replicas, more)...)
		if copied, want := copies(w.present, target(t, w)), more*odd(min(w.replication, len(w.nodes))); copied != want {
			t.Fatalf("%d replicas are copied, the new shards have %d", copied, want)
		}
	})
}

// dealt is the placement of earlier builds: shard after shard takes the next few nodes of a ring. A round ends when the
// first nodes of its shards begin to repeat, and each round prefers the next of a shard's nodes as the leader.
func dealt(shards, replicas int, nodes []Node) []Replicas {
	ring := idsOf(nodes)
	stride := replicas
	for rest := len(ring); rest != 0; {
		stride, rest = rest, stride%rest
	}
	placed := make([]Replicas, shards)
	for shard := range placed {
		round, first := shard/(len(ring)/stride), shard*replicas
		placed[shard].Preferred = ring[(first+round%stride)%len(ring)]
		for i := range replicas {
			placed[shard].Nodes = append(placed[shard].Nodes, ring[(first+i)%len(ring)])
		}
		slices.Sort(placed[shard].Nodes)
	}
	return placed
}

// Nothing moves in a cluster that an earlier build placed, and a new cluster of three nodes is placed as by it.
func TestEarlierPlacementStays(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := world{replication: rapid.SampledFrom([]int{1, 3, 3, 5}).Draw(t, "replication")}
		w.nodes = zoned(rapid.IntRange(w.replication, 50).Draw(t, "nodes"), rapid.IntRange(0, 1).Draw(t, "zones"))
		shards := rapid.IntRange(1, 256).Draw(t, "shards")
		w.present = dealt(shards, w.replication, w.nodes)
		if got := target(t, w); fmt.Sprint(got) != fmt.Sprint(w.present) {
			t.Fatalf("%v\nbecame\n%v", w.present, got)
		}
		three := world{zoned(3, rapid.IntRange(0, 1).Draw(t, "zones of three")), make([]Replicas, shards), 3}
		if got := target(t, three); fmt.Sprint(got) != fmt.Sprint(dealt(shards, 3, three.nodes)) {
			t.Fatalf("three nodes have %v", got)
		}
	})
	two := world{nodes: zoned(2, 0), present: dealt(12, 2, zoned(2, 0)), replication: 3}
	if got := target(t, two); fmt.Sprint(got) != fmt.Sprint(two.present) {
		t.Errorf("of two nodes: %v\nbecame\n%v", two.present, got)
	}
}
