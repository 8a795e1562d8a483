package cluster

import (
	"context"

	"google.golang.org/protobuf/proto"

	"github.com/belfryhq/belfry/cluster/calls"
)

// handlers returns the handlers of calls about this node, made by any node.
func (n *Node) handlers() []calls.Handler {
	return []calls.Handler{
		calls.On(n.change), onNode(n, n.await), onNode(n, n.viewer.status), onNode(n, moves{n}.faults),
		onNode(n, moves{n}.applied), onNode(n, n.compare), onNode(n, n.arrived), onNode(n, n.audit),
		onNode(n, n.chronicle.Task),
	}
}

// onNode returns the handler of calls that ask a node and change nothing. A call ends when the node is closed: the
// stream that carries the call waits for its answer before it ends.
func onNode[Q, A proto.Message](n *Node, ask func(context.Context, Q) (A, error)) calls.Handler {
	return calls.On(func(ctx context.Context, _ uint32, request Q) (A, error) {
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		defer context.AfterFunc(n.ctx, func() { cancel(errClosed) })()
		return ask(ctx, request)
	})
}
