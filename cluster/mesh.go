package cluster

import (
	"slices"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/cluster/control"
	"github.com/belfryhq/belfry/cluster/internal/gossip"
	"github.com/belfryhq/belfry/cluster/internal/identity"
	"github.com/belfryhq/belfry/fsm/task"
)

// startGossip enters the mesh. News from the mesh are only hints; see the package's comment.
func (n *Node) startGossip() error {
	var key []byte
	if n.cfg.Keys != nil {
		key = n.cfg.Keys.Gossip
	}
	var err error
	n.gossip, err = gossip.Start(gossip.Config{
		Self: &clusterpb.GossipMeta{
			Id: n.ID(), Boot: n.identity.Boot(), ClusterId: n.identity.ClusterID(), Name: n.cfg.Name,
			PeerAddr: n.endpoint.Addr(), HttpAddr: n.cfg.HTTPAddr, BootstrapExpect: uint32(n.cfg.BootstrapExpect),
			Nonce: n.runHere.Nonce, TakesPart: n.present.Load(),
		},
		Transport: n.endpoint.Gossip(), Key: key, Join: n.joinAddrs, Member: n.isKnown, Logger: n.cfg.Logger,
		Hints: n.leaders.All, OnHint: n.takeHint, Muted: n.cfg.GossipMuted,
	})
	return err
}

// isKnown reports whether a node is a member of this cluster. sure is set if this node knows all members.
func (n *Node) isKnown(id string) (member, sure bool) {
	return slices.Contains(n.mapNodes(), id), n.ClusterID() != "" && n.isCurrent(n.state())
}

// takeHint accepts gossip's hint about a shard's leader if the hint may be true, and reports whether it was news.
func (n *Node) takeHint(h *clusterpb.LeaderHint) bool {
	state := n.state()
	possible := h.Shard > 0 && h.Shard <= task.Slots && len(h.Leader) == identity.IDBytes
	if len(state.Shards) > 0 {
		possible = slices.Contains(control.Shard(state, h.Shard).GetReplicas(), h.Leader)
	}
	return possible && n.leaders.Hint(h.Shard, h.Term, h.Leader)
}
