package faults

import (
	"slices"
	"strings"
	"testing"

	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/internal/assert"
)

// moving is a view in which shard 1 moves from node c to node d, and slots move from shard 2 to shard 3.
func moving(step, slotStep string, replicas ...client.Replica) *client.Cluster {
	return &client.Cluster{
		Nodes: []client.Node{
			{ID: "a", Name: "n-a"}, {ID: "b", Name: "n-b"}, {ID: "c", Name: "n-c"}, {ID: "d", Name: "n-d"},
		},
		Control: client.ControlGroup{Leader: "a"},
		Shards: []client.Shard{
			{ID: 1, Leader: "c", Target: []string{"a", "b", "d"}, Step: step, Replicas: replicas},
			{ID: 2, Leader: "b"}, {ID: 3, Leader: "d"},
		},
		SlotMoves: []client.SlotMove{{Number: 1, From: 2, To: 3, Step: slotStep}},
	}
}

func voters(nodes ...string) []client.Replica {
	var all []client.Replica
	for _, node := range nodes {
		all = append(all, client.Replica{Node: node, Voter: true})
	}
	return all
}

// Each step of a move has its nodes, by their parts.
func TestShots(t *testing.T) {
	three, four := voters("a", "b", "c"), voters("a", "b", "c", "d")
	learner := append(voters("a", "b", "c"), client.Replica{Node: "d"})
	for _, test := range []struct {
		step     string
		replicas []client.Replica
		want     string
	}{
		{"place", three, "place: a c c d"},
		{"join", learner, "join: a c c d"},
		{"", learner, "copy: a c c d"},
		{"promote", learner, "promote: a c c d"},
		{"transfer", four, "transfer: a c c d"},
		{"remove", four, "remove: a c c d"},
		{"settle", voters("a", "b", "d"), "settle: a c - d"},
	} {
		aims := NewAims(1, ReplicaAims()...)
		settled := moving("", "", three...)
		settled.Shards[0].Target = nil
		if shots := aims.shots(settled); len(shots) > 0 {
			t.Errorf("a shard that does not move: %v", shots)
		}
		nodes := map[Part]string{Reconciler: "-", Source: "-", Leaving: "-", Receiver: "-"}
		step := ""
		for _, s := range aims.shots(moving(test.step, "", test.replicas...)) {
			nodes[s.Part], step = strings.TrimPrefix(s.node, "n-"), s.Step
		}
		got := step + ": " + strings.Join([]string{nodes[Reconciler], nodes[Source], nodes[Leaving], nodes[Receiver]}, " ")
		assert.Equal(t, got, test.want, "%q with %v", test.step, test.replicas)
	}
}

// Only wanted shots are offered, until they were hit often enough.
func TestAimsAreHit(t *testing.T) {
	want := Aim{Slots, "seal", Source}
	aims := NewAims(2, want, Aim{Replica, "drop", Leaving})
	for hits := range 2 {
		shots := aims.shots(moving("", "seal", voters("a", "b", "c")...))
		if len(shots) != 1 || shots[0].Aim != want || shots[0].node != "n-b" || !slices.Equal(shots[0].led, []uint32{2}) {
			t.Fatalf("after %d hits: %+v", hits, shots)
		}
		aims.hit(want)
	}
	if shots := aims.shots(moving("", "seal", voters("a", "b", "c")...)); len(shots) > 0 {
		t.Errorf("after the last hit: %+v", shots)
	}
	if left := aims.Left(Slots); len(left) > 0 || aims.Hits(want) != 2 || len(aims.Left(Replica)) != 1 {
		t.Errorf("left %v and %v", left, aims.Left(Replica))
	}
	for _, row := range []string{"| slots: seal | | 2 | | |", "| replica: drop | | | 0 | |", "| slots: give_up | | | | |"} {
		assert.Contains(t, aims.Markdown(), row)
	}
}

func TestUpperHalf(t *testing.T) {
	for want, slots := range map[string][]client.Slots{
		"5-9":         {{First: 0, End: 10}},
		"90-99":       {{First: 0, End: 10}, {First: 90, End: 100}},
		"6-9,100-101": {{First: 0, End: 10}, {First: 100, End: 102}},
		"":            {{First: 7, End: 8}},
	} {
		assert.Equal(t, upperHalf(slots), want, "%v", slots)
	}
}
