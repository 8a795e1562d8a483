package membership

import (
	"log/slog"
	"testing"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/cluster/control"
	"github.com/belfryhq/belfry/internal/assert"
)

// gossiped is the Mesh of one node.
type gossiped struct{ shown *clusterpb.GossipMeta }

func (m gossiped) Members() []*clusterpb.GossipMeta { return []*clusterpb.GossipMeta{m.shown} }

func (m gossiped) Starts(node string) []*clusterpb.GossipMeta {
	if node != m.shown.Id {
		return nil
	}
	return m.Members()
}

// ownNode is a node at own:1.
type ownNode struct{ gossip Mesh }

func (*ownNode) PeerAddr() string { return "own:1" }
func (n *ownNode) Mesh() Mesh     { return n.gossip }

// The addresses of a node come from the address book first, then from gossip, and at last from --join. An address of
// --join where another node answered is left out, and so is this node's own.
func TestLookupOrder(t *testing.T) {
	const other, third = "00000000000000bb", "00000000000000cc"
	id, err := OpenIdentity(t.TempDir())
	assert.NoError(t, err)
	t.Cleanup(func() {
		assert.Equal(t, id.Close(), nil)
	})
	own := &ownNode{}
	d := NewDirectory(DirectoryConfig{
		Identity: id, Control: control.NewReplica(control.ReplicaConfig{Node: id.NodeID(), Boot: id.Boot()}),
		Logger: slog.New(slog.DiscardHandler),
		Join:   []string{"own:1", "third:1", "join:1"}, Node: own,
	})
	d.Reached(third, "third:1")
	expect := func(want ...string) {
		t.Helper()
		var got []string
		for _, target := range d.Lookup(other) {
			got = append(got, target.Addr)
		}
		assert.EqualSlices(t, got, want, "looked up")
	}
	expect("join:1")
	own.gossip = gossiped{&clusterpb.GossipMeta{Id: other, PeerAddr: "gossip:1"}}
	expect("gossip:1", "join:1")
	d.Reached(other, "reached:1")
	expect("reached:1", "gossip:1", "join:1")
}

// A node that forms the cluster is one until it is registered. No other node becomes one by a claim in gossip.
func TestFounding(t *testing.T) {
	state := &clusterpb.ControlState{Nodes: []*clusterpb.Node{{Id: "a"}}}
	for id, want := range map[string]bool{"a": false, "b": true, "c": false} {
		assert.Equal(t, isFounding(id, state, []string{"a", "b"}), want, "%s", id)
	}
}
