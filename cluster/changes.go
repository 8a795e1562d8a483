package cluster

import (
	"context"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/belfryhq/belfry/cluster/calls"
	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/cluster/control"
)

// allNodes connects the parts of this node with the nodes of the cluster.
type allNodes struct{ n *Node }

// Change asks another node for a change of the control group.
func (a allNodes) Change(
	ctx context.Context, node string, change *clusterpb.ControlChange,
) (*clusterpb.ControlChanged, error) {
	return a.n.peers.calls(node).Change(ctx, change)
}

// Await waits until versions of the control group's state are in force on a node, which may be this one.
func (a allNodes) Await(ctx context.Context, node string, versions *clusterpb.AwaitRequest) error {
	if node == a.n.ID() {
		return a.n.await(ctx, versions)
	}
	_, err := a.n.peers.Peer(node).Await(ctx, versions)
	return err
}

// Alive reports whether a node seems alive.
func (a allNodes) Alive(node string) bool { return a.n.health.Alive(node) }

// await waits until versions of the control group's state are in force on this node.
func (n *Node) await(ctx context.Context, versions *clusterpb.AwaitRequest) error {
	if versions.Queues > 0 {
		if err := n.policies.InForce(ctx, versions.Queues); err != nil {
			return err
		}
	}
	if versions.Access > 0 {
		return n.tenants.Await(ctx, versions.Access)
	}
	return nil
}

// Await answers another node once versions of the control group's state are in force on this one.
func (s service) Await(ctx context.Context, versions *clusterpb.AwaitRequest) (*clusterpb.AwaitReply, error) {
	ctx, cancel := context.WithTimeout(ctx, control.Patience)
	defer cancel()
	if err := s.n.await(ctx, versions); err != nil {
		return nil, status.Error(codes.DeadlineExceeded, err.Error())
	}
	return &clusterpb.AwaitReply{}, nil
}

// answering answers calls of other nodes from the replicas on this node, and from its replica of the control group.
type answering struct {
	calls.Shards
	control *control.Replica
}

// Change commits a change through this node's replica of the control group.
func (a answering) Change(ctx context.Context, change *clusterpb.ControlChange) (*clusterpb.ControlChanged, error) {
	return a.control.ChangeHere(ctx, change)
}
