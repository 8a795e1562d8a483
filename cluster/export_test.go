package cluster

import (
	"context"

	"github.com/belfryhq/belfry/cluster/clusterpb"
)

// ControlLeader returns the leader of the control group as far as the node knows, or "".
func (n *Node) ControlLeader() string {
	leader, _ := n.control.Group().Leader()
	return leader
}

// Split splits a shard. The node must lead the control group.
func (n *Node) Split(ctx context.Context, shard uint32) error {
	return n.control.Group().Split(ctx, shard)
}

// State returns the state of the control group.
func (n *Node) State() *clusterpb.ControlState { return n.control.State() }
