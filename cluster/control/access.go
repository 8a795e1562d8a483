package control

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/cluster/internal/bulk"
	"github.com/belfryhq/belfry/cluster/internal/erasure"
	"github.com/belfryhq/belfry/cluster/internal/tenancy"
	"github.com/belfryhq/belfry/fsm/task"
)

// Tasks gives access to the tasks of namespaces that are being deleted, to the nodes that may take more of them, and to
// the tasks of bulk operations.
type Tasks interface {
	erasure.Cluster
	bulk.Cluster
}

// newEraser returns the driver of the deletions of namespaces, for one leadership.
func newEraser(g *Group) *erasure.Eraser {
	return erasure.New(erasure.Config{
		Cluster: g.cfg.Tasks, Watch: g.Watch, End: g.endNamespace, Calm: g.cfg.Limits.Calm, Logger: g.cfg.Logger,
	})
}

// endNamespace commits the end of the deletion of a namespace.
func (g *Group) endNamespace(ctx context.Context, name string) error {
	end := &clusterpb.EndNamespace{Name: name, AtMs: g.cfg.Clock().UnixMilli()}
	_, err := g.decide(ctx, &clusterpb.ControlEntry{Op: &clusterpb.ControlEntry_EndNamespace{EndNamespace: end}})
	return err
}

// ChangeAccess changes a key or a namespace, and waits until the entry is committed; see package tenancy. It answers
// with the reason if the state, or a node with an older build, does not allow the change. The error is a
// *task.FieldError if a field breaks a limit, and a *task.NotLeaderError on a node that is not the leader.
// ChangeAccess only reads the message.
func (g *Group) ChangeAccess(
	ctx context.Context, change *clusterpb.AccessChange,
) (*clusterpb.AccessChanged, error) {
	entry, err := tenancy.Prepare(change, g.cfg.Clock())
	if err != nil {
		return nil, err
	}
	before := g.State()
	if g.group.Leads() { // the state of another node may be old
		if err := tenancy.CheckShare(before, change); err != nil {
			return nil, err
		}
	}
	_, err = g.decide(ctx, entry)
	var behind *BehindError
	var refusal *tenancy.Refusal
	switch {
	case errors.As(err, &behind):
		return &clusterpb.AccessChanged{Impossible: behind.Error()}, nil
	case errors.As(err, &refusal):
		return &clusterpb.AccessChanged{Impossible: refusal.Error()}, nil
	case err != nil:
		return nil, err
	}
	return accessChanged(before, g.State(), change), nil
}

// accessChanged describes a change by the states before and after it.
func accessChanged(before, after *clusterpb.ControlState, change *clusterpb.AccessChange) *clusterpb.AccessChanged {
	changed := &clusterpb.AccessChanged{Version: after.AccessVersion}
	key := func(id string) {
		old := tenancy.Key(before, id)
		changed.Existed, changed.Key = old != nil, tenancy.Key(after, id)
		if changed.Key == nil {
			changed.Key = old
		}
	}
	namespace := func(name string) {
		changed.Existed, changed.Namespace = tenancy.Find(before, name) != nil, tenancy.Find(after, name)
		changed.Operation = tenancy.Deletion(after, name)
	}
	switch op := change.GetOp().(type) {
	case *clusterpb.AccessChange_AddKey:
		key(op.AddKey.GetKey().GetId())
	case *clusterpb.AccessChange_RemoveKey:
		key(op.RemoveKey.GetId())
	case *clusterpb.AccessChange_RotateKey:
		key(op.RotateKey.GetId())
	case *clusterpb.AccessChange_SetNamespace:
		namespace(op.SetNamespace.GetNamespace().GetName())
	case *clusterpb.AccessChange_DeleteNamespace:
		namespace(op.DeleteNamespace.GetName())
	}
	return changed
}

// applyDeleteNamespace begins to delete a namespace, and ends the bulk operations in it.
func applyDeleteNamespace(s *clusterpb.ControlState, del *clusterpb.DeleteNamespace) error {
	if err := tenancy.DeleteNamespace(s, del); err != nil {
		return err
	}
	bulk.StopIn(s, del.GetName(), del.GetAtMs())
	s.Operations = slices.Clone(s.Operations)
	forgetOperations(s)
	return nil
}

// applyEndNamespace ends the deletion of a namespace, and removes the records of the bulk operations in it.
func applyEndNamespace(s *clusterpb.ControlState, end *clusterpb.EndNamespace) error {
	if err := tenancy.EndNamespace(s, end); err != nil {
		return err
	}
	bulk.Forget(s, end.GetName())
	s.Operations = slices.Clone(s.Operations)
	forgetOperations(s)
	return nil
}

// onNamespace reports whether an operation is about a namespace.
func onNamespace(op *clusterpb.Operation) bool {
	return op.GetKind() == clusterpb.OperationKind_OPERATION_KIND_DELETE_NAMESPACE
}

// ChangeAccess changes a key or a namespace through the node's group, which must lead; see Group.
func (r *Replica) ChangeAccess(
	ctx context.Context, change *clusterpb.AccessChange,
) (*clusterpb.AccessChanged, error) {
	g := r.Group()
	if g == nil {
		return nil, fmt.Errorf("%w: this node is in no cluster yet", task.ErrNotProposed)
	}
	return g.ChangeAccess(ctx, change)
}
