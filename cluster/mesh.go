package cluster

import (
	"slices"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/cluster/control"
	"github.com/belfryhq/belfry/cluster/internal/gossip"
	"github.com/belfryhq/belfry/cluster/internal/membership"
	"github.com/belfryhq/belfry/fsm/task"
)

// startGossip enters the mesh. News from the mesh are only hints; see the package's comment.
func (n *Node) startGossip() error {
	var keys [][]byte
	if n.keys != nil {
		keys = n.keys.Gossip()
	}
	var err error
	n.gossip, err = gossip.Start(gossip.Config{
		Self: &clusterpb.GossipMeta{
			Id: n.ID(), Boot: n.identity.Boot(), ClusterId: n.identity.ClusterID(), Name: n.cfg.Name,
			PeerAddr: n.endpoint.Addr(), HttpAddr: n.cfg.HTTPAddr, Https: n.cfg.HTTPS,
			BootstrapExpect: uint32(n.cfg.BootstrapExpect),
			Nonce:           n.runHere.Nonce, TakesPart: n.admission.TakesPart(),
		},
		Transport: n.endpoint.Gossip(), Keys: keys, Join: n.directory.JoinAddrs, Member: n.directory.IsKnown,
		Logger: n.cfg.Logger, Hints: n.leaders.All, OnHint: n.takeHint, Muted: n.cfg.GossipMuted,
	})
	return err
}

// takeHint accepts gossip's hint about a shard's leader if the hint may be true, and reports whether it was news.
func (n *Node) takeHint(h *clusterpb.LeaderHint) bool {
	state := n.control.State()
	possible := h.Shard > 0 && h.Shard <= task.Slots && len(h.Leader) == membership.IDBytes
	if len(state.Shards) > 0 {
		possible = slices.Contains(control.Shard(state, h.Shard).GetReplicas(), h.Leader)
	}
	return possible && n.leaders.Hint(h.Shard, h.Term, h.Leader)
}
