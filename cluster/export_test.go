package cluster

import (
	"context"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/cluster/control"
)

// ControlLeader returns the leader of the control group as far as the node knows, or "".
func (n *Node) ControlLeader() string {
	leader, _ := n.control.Group().Leader()
	return leader
}

// Split splits a shard of a cluster with so many shards. The node must lead the control group.
func (n *Node) Split(ctx context.Context, shard, shards uint32) error {
	return n.control.Group().Split(ctx, shard, shards)
}

// Faults asks all nodes for faulty replicas, as the leader of the control group does.
func (n *Node) Faults(ctx context.Context) []control.Fault { return moves{n}.Faults(ctx) }

// Applied asks a node for the last entry that its replica of a shard has applied, as the leader does.
func (n *Node) Applied(ctx context.Context, node string, shard uint32) (uint64, error) {
	return moves{n}.Applied(ctx, node, shard, control.Shard(n.State(), shard).GetJoined()[node])
}

// Commands asks all nodes for the number of commands that each shard has applied, as the leader does.
func (n *Node) Commands(ctx context.Context) map[uint32]uint64 { return moves{n}.Commands(ctx) }

// State returns the state of the control group.
func (n *Node) State() *clusterpb.ControlState { return n.control.State() }

// Transfer gives the leadership of a shard to a node.
func (n *Node) Transfer(ctx context.Context, shard uint32, to string) error {
	ask := &clusterpb.MembersCall{Change: &clusterpb.MembersCall_Transfer{Transfer: to}}
	_, err := n.router.Members(ctx, shard, ask)
	return err
}
