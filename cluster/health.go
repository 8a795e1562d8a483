package cluster

import (
	"context"

	"github.com/belfryhq/belfry/cluster/calls"
	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/cluster/headroom"
	"github.com/belfryhq/belfry/cluster/internal/health"
	"github.com/belfryhq/belfry/cluster/quotas"
)

// ownState is the state of this node.
type ownState struct{ n *Node }

func (o ownState) Replicas() (all []health.Replica) {
	for _, s := range o.n.replicas.All() {
		all = append(all, s)
	}
	return all
}

// Replica returns the replica of a shard, for its quotas.
func (o ownState) Replica(shard uint32) (quotas.Replica, error) { return o.n.replicas.Find(shard) }

func (o ownState) DiskLow() bool { return o.n.disk.Low() }

func (o ownState) MemoryFull() string { return o.n.memory.Full() }

func (o ownState) Resting() bool {
	return o.n.control.State().GetOrders()[o.n.ID()] == clusterpb.NodeOrder_NODE_ORDER_REST
}

func (a allNodes) Compare(
	ctx context.Context, node string, r *clusterpb.CompareRequest,
) (*clusterpb.CompareReply, error) {
	return calls.Ask[*clusterpb.CompareReply](ctx, a.At(node), 0, r)
}

func (n *Node) compare(_ context.Context, r *clusterpb.CompareRequest) (*clusterpb.CompareReply, error) {
	return n.health.Compare(r), nil
}

// Tasks returns the memory that the tasks of all replicas here take.
func (o ownState) Tasks() headroom.Tasks {
	var sum headroom.Tasks
	for _, s := range o.n.replicas.All() {
		held, free, coming := s.Memory()
		sum.Held, sum.Free, sum.Coming = sum.Held+held, sum.Free+free, sum.Coming+coming
	}
	return sum
}
