package cluster

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/cluster/control"
	"github.com/belfryhq/belfry/cluster/router"
	"github.com/belfryhq/belfry/fsm/task"
)

// Operations are the operations on nodes, replicas and slots, and the bulk operations on tasks. Its methods are safe
// for concurrent use.
type Operations struct {
	control *control.Replica
	router  *router.Router
	viewer  *viewer
}

// Operations returns the operations of the cluster, to begin and to follow on this node.
func (n *Node) Operations() *Operations { return n.operations }

// Begin begins an operation on the nodes, the replicas or the slots, and returns it with the moves that it needs. A
// preview begins nothing. A caller may use any node, and sets the operation's kind and the fields of that kind, and an
// id if the request may be repeated. An operation with the same id, or an equal one that is under way, is
// returned instead. The error is a *task.ImpossibleError for an operation that could not end.
func (s *Operations) Begin(
	ctx context.Context, op *clusterpb.Operation, preview bool,
) (*clusterpb.ControlChanged, error) {
	op = proto.CloneOf(op)
	op.Id = cmp.Or(op.Id, control.NewOperationID()) // so the change may be repeated
	begin := &clusterpb.ControlEntry{Op: &clusterpb.ControlEntry_Begin{Begin: &clusterpb.Begin{Operation: op}}}
	return s.control.Change(ctx, &clusterpb.ControlChange{Entry: begin, Preview: preview})
}

// Operation returns an operation, with the number of replicas or slots that it has still to move. It returns nil if
// there is none, or if it has ended long ago.
func (s *Operations) Operation(id string) (op *clusterpb.Operation, left uint32) {
	state := s.control.State()
	if op = control.FindOperation(state, id); op == nil || op.EndedMs > 0 {
		return op, 0
	}
	return op, control.Left(state, op)
}

// FindNode returns the id of the registered node with this id or name. The error wraps task.ErrNoNode, or is a
// *task.ImpossibleError if several nodes have the name.
func (s *Operations) FindNode(idOrName string) (string, error) {
	state := s.control.State()
	if control.Node(state, idOrName) != nil {
		return idOrName, nil
	}
	var ids []string
	for _, node := range state.Nodes {
		if strings.EqualFold(node.Name, idOrName) {
			ids = append(ids, node.Id)
		}
	}
	switch {
	case len(ids) == 1:
		return ids[0], nil
	case len(ids) > 1:
		return "", &task.ImpossibleError{
			Reason: fmt.Sprintf("the nodes %s have this name; name one of them by its id", strings.Join(ids, " and ")),
		}
	case slices.Contains(state.Removed, idOrName):
		return "", fmt.Errorf("%w any more: it was removed", task.ErrNoNode)
	}
	return "", task.ErrNoNode
}
