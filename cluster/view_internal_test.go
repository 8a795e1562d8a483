package cluster

import (
	"testing"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/cluster/leaders"
)

// The version changes with each fact that a client must learn, and with no other.
func TestMapVersion(t *testing.T) {
	beliefs := leaders.NewBeliefs()
	state := func() *clusterpb.ControlState {
		return &clusterpb.ControlState{
			Slots: []*clusterpb.SlotRange{{First: 0, End: 2048, Shard: 1}, {First: 2048, End: 4096, Shard: 2}},
			Nodes: []*clusterpb.Node{{Id: "a", HttpAddr: "127.0.0.1:1"}, {Id: "b", HttpAddr: "127.0.0.1:2"}},
		}
	}
	seen := map[string]string{}
	expect := func(why string, s *clusterpb.ControlState, same string) {
		t.Helper()
		version := computeMapVersion(s, beliefs)
		if before, known := seen[version]; known != (same != "") || before != same {
			t.Errorf("%s: as %q, want as %q", why, before, same)
		}
		seen[version] = why
	}
	moved, split, down := state(), state(), state()
	moved.Nodes[1].HttpAddr = "127.0.0.1:3"
	split.Slots[0].End, split.Slots[1].First = 1024, 1024
	down.Nodes[0].Name = "another"
	expect("before", state(), "")
	expect("no address", down, "before")
	expect("an address", moved, "")
	expect("slots", split, "")
	beliefs.Note(1, 5, "a")
	expect("a leader", state(), "")
	beliefs.Note(1, 6, "a")
	expect("a term", state(), "a leader")
	beliefs.Note(1, 7, "b")
	expect("another leader", state(), "")
}
