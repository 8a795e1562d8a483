package cluster

import (
	"fmt"

	"github.com/cespare/xxhash/v2"

	"github.com/belfryhq/belfry/cluster/clusterpb"
)

// mapped is the map's version, and the beliefs from which it was computed.
type mapped struct {
	state   *clusterpb.ControlState
	news    uint64
	version string
}

// MapVersion names what this node believes of which slots are in which shard, who leads it, and where callers find that
// node: equal beliefs have equal versions, on all nodes. It costs next to nothing while nothing changes.
func (n *Node) MapVersion() string {
	state, news := n.state(), n.leaders.News()
	if m := n.mapped.Load(); m != nil && m.state == state && m.news == news {
		return m.version
	}
	m := &mapped{state: state, news: news, version: n.computeMapVersion(state)}
	n.mapped.Store(m)
	return m.version
}

func (n *Node) computeMapVersion(state *clusterpb.ControlState) string {
	h := xxhash.New()
	say := func(format string, args ...any) { _, _ = fmt.Fprintf(h, format, args...) } // a Digest's writes never fail
	for _, r := range state.Slots {
		leader := n.leaders.Leader(r.Shard)
		say("%d %d %d %q\n", r.First, r.End, r.Shard, leader)
	}
	for _, node := range state.Nodes {
		say("%q %q\n", node.Id, node.HttpAddr)
	}
	return fmt.Sprintf("%016x", h.Sum64())
}
