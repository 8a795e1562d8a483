package cluster

import (
	"context"
	"fmt"

	"github.com/belfryhq/belfry/cluster/calls"
	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/cluster/control"
	"github.com/belfryhq/belfry/fsm/task"
)

// allNodes connects the parts of this node with the nodes of the cluster.
type allNodes struct{ n *Node }

// At returns a node to call, which may be this one.
func (a allNodes) At(node string) calls.Node {
	if node == a.n.ID() {
		return a.n.table
	}
	return a.n.peers.calls(node)
}

// Change asks another node for a change of the control group.
func (a allNodes) Change(
	ctx context.Context, node string, change *clusterpb.ControlChange,
) (*clusterpb.ControlChanged, error) {
	changed, err := calls.Ask[*clusterpb.ControlChanged](ctx, a.At(node), 0, change)
	if err == nil && changed == nil {
		return nil, fmt.Errorf("%w: node %s answered nothing", task.ErrUnknown, node)
	}
	return changed, err
}

// Await waits until versions of the control group's state are in force on a node, which may be this one.
func (a allNodes) Await(ctx context.Context, node string, versions *clusterpb.AwaitRequest) error {
	_, err := calls.Ask[*clusterpb.AwaitReply](ctx, a.At(node), 0, versions)
	return err
}

// Alive reports whether a node seems alive.
func (a allNodes) Alive(node string) bool { return a.n.health.Alive(node) }

// await answers once versions of the control group's state are in force on this node.
func (n *Node) await(ctx context.Context, versions *clusterpb.AwaitRequest) (*clusterpb.AwaitReply, error) {
	ctx, cancel := context.WithTimeout(ctx, control.Patience)
	defer cancel()
	if versions.Queues > 0 {
		if err := n.policies.InForce(ctx, versions.Queues); err != nil {
			return nil, err
		}
	}
	if versions.Access > 0 {
		if err := n.tenants.Await(ctx, versions.Access); err != nil {
			return nil, err
		}
	}
	return &clusterpb.AwaitReply{}, nil
}

// change commits a change that another node asks for.
func (n *Node) change(
	ctx context.Context, _ uint32, change *clusterpb.ControlChange,
) (*clusterpb.ControlChanged, error) {
	return n.control.ChangeHere(ctx, change)
}
