package cluster

import (
	"context"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/cluster/control"
)

// Begin begins an operation on the nodes or the replicas, and returns it with the moves of replicas that it needs. A
// preview begins nothing. A caller may use any node, and sets the operation's kind and its node or replication factor.
// The error is a *control.ImpossibleError for an operation that could not end.
func (n *Node) Begin(ctx context.Context, op *clusterpb.Operation, preview bool) (*clusterpb.Began, error) {
	return n.operations.Begin(ctx, op, preview)
}

// Operation returns an operation, with the number of replicas that it has still to move. It returns nil if there is
// none, or if it has ended long ago.
func (n *Node) Operation(id string) (op *clusterpb.Operation, left uint32) {
	state := n.control.State()
	if op = control.FindOperation(state, id); op == nil || op.EndedMs > 0 {
		return op, 0
	}
	return op, control.ReplicasLeft(state, op)
}

// Operations returns the operations under way and those that ended last, in the order of their beginning.
func (n *Node) Operations() []*clusterpb.Operation { return n.control.State().Operations }
