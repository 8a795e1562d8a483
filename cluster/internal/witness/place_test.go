package witness

import (
	"testing"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/internal/assert"
)

func placed(nodes map[string]uint64) map[uint32]map[string]uint64 {
	return map[uint32]map[string]uint64{3: nodes}
}

// TestPlacedReplicas checks that the record of a removed replica goes, that a replica which was removed and added again
// begins anew, and that all other records stay.
func TestPlacedReplicas(t *testing.T) {
	dir := t.TempDir()
	table := openTable(t, dir, true)
	for _, node := range []string{"a", "b", "c"} {
		table.Saw(node, 3, 5, 100, 5)
	}
	table.Saw("a", 0, 2, 50, 2)
	table.Place(placed(map[string]uint64{"a": 0, "b": 4}))
	table.Saw("b", 3, 5, 10, 5)
	table.Saw("a", 3, 5, 90, 5)
	assert.NoError(t, table.Close())
	for node, want := range map[string]string{
		"a": "the control group: term 2, index 50; shard 3: term 5, index 100;",
		"b": "shard 3: term 5, index 10;",
		"c": "",
	} {
		assert.Equal(t, onDisk(t, dir, node), want, "node %s", node)
	}
	if again := openTable(t, dir, false); again.Seen("b").Positions[0].Joined != 4 {
		t.Errorf("after a restart: %v", again.Seen("b"))
	}
}

// TestJudgeOfUnseenReplica checks that the row which an observer begins for a later replica is no evidence, as long as
// nothing was seen of it: the node may have ended before it opened that replica.
func TestJudgeOfUnseenReplica(t *testing.T) {
	table := openTable(t, t.TempDir(), true)
	table.Saw("b", 3, 5, 10, 5)
	table.Place(placed(map[string]uint64{"b": 6}))
	cfg := CheckConfig{
		Node: "b", Replicas: map[uint32]Replica{3: {Term: 5, Joined: 4}}, Nodes: world{},
	}
	if refusal := judge(cfg, &clusterpb.WitnessReply{Node: "w", Seen: table.Seen("b")}); refusal != nil {
		t.Error(refusal)
	}
}

// TestJudgeOfMovedReplicas checks that a position of a replica that was removed is no evidence against its node, and
// that a position of a later replica than the folder's is.
func TestJudgeOfMovedReplicas(t *testing.T) {
	whole := func(uint64, uint64) bool { return true }
	empty := func(uint64, uint64) bool { return false }
	for name, c := range map[string]struct {
		joined  uint64 // of the position
		own     map[uint32]Replica
		left    map[uint32]uint64
		refused bool
	}{
		"the same replica":        {4, map[uint32]Replica{3: {Term: 5, Holds: whole, Joined: 4}}, nil, false},
		"the same, and it lacks":  {4, map[uint32]Replica{3: {Term: 5, Holds: empty, Joined: 4}}, nil, true},
		"an earlier replica":      {2, map[uint32]Replica{3: {Term: 5, Holds: empty, Joined: 4}}, map[uint32]uint64{3: 2}, false},
		"a later replica":         {6, map[uint32]Replica{3: {Term: 9, Holds: whole, Joined: 4}}, nil, true},
		"a replica that has left": {4, nil, map[uint32]uint64{3: 4}, false},
		"it came after that":      {6, nil, map[uint32]uint64{3: 4}, true},
		"it never left":           {0, nil, nil, true},
	} {
		cfg := CheckConfig{Node: "self", Replicas: c.own, Left: c.left, Nodes: world{}}
		seen := &clusterpb.SeenNode{Positions: []*clusterpb.SeenPosition{{Group: 3, Term: 5, Index: 7, EntryTerm: 5, Joined: c.joined}}}
		got := judge(cfg, &clusterpb.WitnessReply{Node: "w", Seen: seen})
		assert.Equal(t, got != nil, c.refused, "%s: %v", name, got)
	}
}
