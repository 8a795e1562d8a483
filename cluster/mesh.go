package cluster

import (
	"slices"

	"github.com/belfryhq/belfry/cluster/calls"
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
	transport := gossip.Transport(n.endpoint.Gossip())
	if n.cfg.GossipMuted != nil {
		transport = gossip.Mutable(transport, n.cfg.GossipMuted)
	}
	var err error
	n.gossip, err = gossip.Start(gossip.Config{
		Self: &clusterpb.GossipMeta{
			Id: n.ID(), Boot: n.identity.Boot(), ClusterId: n.identity.ClusterID(), Name: n.cfg.Name,
			PeerAddr: n.endpoint.Addr(), HttpAddr: n.cfg.HTTPAddr, Https: n.cfg.HTTPS,
			BootstrapExpect: uint32(n.cfg.BootstrapExpect),
			Nonce:           n.runHere.Nonce, TakesPart: n.admission.TakesPart(),
		},
		Transport: transport, Keys: keys, Directory: n.directory, Leaders: hints{n.leaders, n.control},
		Logger: n.cfg.Logger,
	})
	return err
}

// hints are the beliefs about leaders, as gossip exchanges them.
type hints struct {
	*calls.Beliefs
	control *control.Replica
}

// Take accepts gossip's hint about a shard's leader if the hint may be true, and reports whether it was news.
func (l hints) Take(h *clusterpb.LeaderHint) bool {
	state := l.control.State()
	possible := h.Shard > 0 && h.Shard <= task.Slots && len(h.Leader) == membership.IDBytes
	if len(state.Shards) > 0 {
		possible = slices.Contains(control.Shard(state, h.Shard).GetReplicas(), h.Leader)
	}
	return possible && l.Hint(h.Shard, h.Term, h.Leader)
}
