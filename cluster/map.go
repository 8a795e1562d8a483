package cluster

import (
	"fmt"

	"github.com/cespare/xxhash/v2"

	"github.com/belfryhq/belfry/client/view"
	"github.com/belfryhq/belfry/cluster/calls"
	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/cluster/control"
)

// Map returns the belief of this node about the slots of each shard, the leaders of the shards, and their URLs for
// callers, without the Namespace. It asks no other node.
func (n *Node) Map() view.Map { return n.viewer.beliefs() }

func (w *viewer) beliefs() view.Map {
	state := w.n.control.State()
	m, slots, leads := view.Map{ClusterID: w.n.ClusterID(), Version: w.mapVersion()}, slotsOf(state), map[string]bool{}
	for _, s := range state.Shards {
		leader := w.n.leaders.Leader(s.Id)
		leads[leader] = true
		m.Shards = append(m.Shards, view.MapShard{ID: s.Id, Leader: leader, Slots: slots[s.Id]})
	}
	for _, node := range state.Nodes {
		if leads[node.Id] && (node.Id == w.n.ID() || w.n.health.Alive(node.Id)) {
			m.Nodes = append(m.Nodes, view.MapNode{ID: node.Id, URL: control.URL(node)})
		}
	}
	return m
}

// slotsOf returns the slots of each shard.
func slotsOf(state *clusterpb.ControlState) map[uint32]view.SlotList {
	slots := make(map[uint32]view.SlotList)
	for _, r := range state.Slots {
		slots[r.Shard] = append(slots[r.Shard], view.Slots{First: r.First, End: r.End})
	}
	return slots
}

// mapped is the map's version and the beliefs that it was computed from.
type mapped struct {
	state   *clusterpb.ControlState
	news    uint64
	version string
}

// MapVersion returns a digest of this node's beliefs about the slots of each shard, the shards' leaders, and the nodes'
// addresses for callers. Equal beliefs have equal versions on all nodes. The call costs next to nothing while the
// beliefs stay the same.
func (n *Node) MapVersion() string { return n.viewer.mapVersion() }

func (w *viewer) mapVersion() string {
	state, news := w.n.control.State(), w.n.leaders.News()
	if m := w.mapped.Load(); m != nil && m.state == state && m.news == news {
		return m.version
	}
	m := &mapped{state: state, news: news, version: computeMapVersion(state, w.n.leaders)}
	w.mapped.Store(m)
	return m.version
}

func computeMapVersion(state *clusterpb.ControlState, beliefs *calls.Beliefs) string {
	h := xxhash.New()
	say := func(format string, args ...any) { _, _ = fmt.Fprintf(h, format, args...) } // a Digest's writes never fail
	for _, r := range state.Slots {
		leader := beliefs.Leader(r.Shard)
		say("%d %d %d %q\n", r.First, r.End, r.Shard, leader)
	}
	for _, node := range state.Nodes {
		say("%q %q\n", node.Id, node.HttpAddr)
		if node.Https { // earlier builds know no such nodes, and have the same digest of all others
			say("https\n")
		}
	}
	return fmt.Sprintf("%016x", h.Sum64())
}
