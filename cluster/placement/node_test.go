package placement

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/belfryhq/belfry/internal/assert"
)

// A lost or draining node has nothing in the target if others can have it: it keeps a replica only if the number would
// be even otherwise, which happens with two other nodes only.
func TestStates(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t, Active, Active, Absent, Lost, Draining)
		for i, r := range target(t, w) {
			left := 0
			for _, n := range w.nodes {
				had, has := slices.Contains(w.present[i].Nodes, n.ID), slices.Contains(r.Nodes, n.ID)
				switch {
				case has && !had && n.State != Active:
					t.Fatalf("shard %d gets a replica on %s, which is %v", i, n.ID, n.State)
				case r.Preferred == n.ID && n.State > Absent:
					t.Fatalf("shard %d prefers %s, which is %v", i, n.ID, n.State)
				case has && n.State > Absent:
					left++
				}
			}
			if may := len(able(w.nodes, w.present[i])); left > 0 && (may != 2 || left > 1 || len(r.Nodes) != 3) {
				t.Fatalf("shard %d is on %v, although %d nodes may hold one", i, r.Nodes, may)
			}
		}
	})
}

func TestLeavingNodesGiveReplicasAway(t *testing.T) {
	for _, c := range []struct {
		nodes, present string
		replication    int
		want           string
	}{
		{"1 2 3-lost", "3 1 2", 3, "1 2 3"},
		{"1 2 3-draining", "3 1 2", 3, "1 2 3"},
		{"1 2 3-lost 4-draining", "3 1 2 4", 3, "1 2 4"},
		{"1 2 3-lost 4", "1 2 3", 3, "1 2 4"},
		{"1 2 3-draining 4", "1 2 3", 3, "1 2 4"},
		{"1 2 3-absent 4", "1 2 3", 3, "1 2 3"},
		{"1 2", "1 2 3", 3, "1 2"},
		{"1 2-lost 3-lost", "1 2 3", 3, "1"},
		{"1 2 3-draining", "3", 3, "1"},
		{"1 2 3 4-lost 5-lost", "1 2 3 4 5", 5, "1 2 3"},
		{"1 2 3 4-lost", "1 2 4", 1, "1"},
	} {
		got := target(t, world{nodesOf(t, c.nodes), []Replicas{{strings.Fields(c.present), ""}}, c.replication})[0]
		if strings.Join(got.Nodes, " ") != c.want {
			t.Errorf("%s, replicas %s: %v, want %s", c.nodes, c.present, got, c.want)
		}
	}
}

// The effective factor is the largest odd number up to the replication factor and the number of nodes.
func TestEffectiveFactor(t *testing.T) {
	for nodes, want := range map[int][2]int{1: {1, 1}, 2: {1, 1}, 3: {3, 3}, 4: {3, 3}, 5: {3, 5}, 6: {3, 5}, 9: {3, 5}} {
		for i, replication := range []int{3, 5} {
			w := world{zoned(nodes, 0), make([]Replicas, 12), replication}
			for _, r := range target(t, w) {
				assert.Equal(t, len(r.Nodes), want[i], "%d nodes, replication %d: %v", nodes, replication, r.Nodes)
			}
		}
	}
}

func TestErrors(t *testing.T) {
	one, fresh := []Node{{"a", "", 10, Active}}, make([]Replicas, 1)
	for _, c := range []struct {
		want        string
		nodes       []Node
		present     []Replicas
		replication int
	}{
		{"none of 0 nodes is active", nil, fresh, 3},
		{"none of 1 nodes is active", []Node{{"a", "", 10, Draining}}, fresh, 3},
		{"node a is named twice", append(one, one...), fresh, 3},
		{"a node has no id", []Node{{"", "", 10, Active}}, fresh, 3},
		{"node a: weight 0 is not within 1 to 100", []Node{{"a", "", 0, Active}}, fresh, 3},
		{"node a: weight 101 is not within 1 to 100", []Node{{"a", "", 101, Active}}, fresh, 3},
		{"node a: state 9 is unknown", []Node{{"a", "", 10, 9}}, fresh, 3},
		{"no shards to place", one, nil, 3},
		{"replication 0: at least 1", one, fresh, 0},
		{"shard at 1: node a is named twice", one, []Replicas{{}, {[]string{"a", "a"}, "a"}}, 3},
	} {
		if _, err := Target(c.nodes, c.present, c.replication); err == nil || err.Error() != c.want {
			t.Errorf("got %v, want %s", err, c.want)
		}
	}
	_, err := Voters(one, []string{"a", "a"})
	assert.Error(t, err, "a voter is named twice")
}

func TestCheckReplication(t *testing.T) {
	for replicas, ok := range map[int]bool{-1: false, 0: false, 1: true, 2: false, 3: true, 4: false, 5: true, 7: false} {
		err := CheckReplication(replicas)
		assert.Equal(t, err == nil, ok, "%d: %v", replicas, err)
	}
}

func TestCheckZone(t *testing.T) {
	for _, good := range []string{"", "a", "eu-central-1a", "dc1.rack_7", strings.Repeat("z", 63)} {
		assert.Equal(t, CheckZone(good), nil)
	}
	for _, bad := range []string{"-", "a-", ".a", "a b", "ä", "a/b", strings.Repeat("z", 64)} {
		assert.Error(t, CheckZone(bad), "%q is a zone", bad)
	}
}
