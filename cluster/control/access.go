package control

import (
	"context"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/cluster/internal/bulk"
	"github.com/belfryhq/belfry/cluster/internal/erasure"
	"github.com/belfryhq/belfry/cluster/internal/tenancy"
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

// prepareAccess checks a change of a key or a namespace, and sets its times; see package tenancy.
func prepareAccess(r *reconciler, c *clusterpb.ControlChange) (*clusterpb.ControlChanged, error) {
	if err := tenancy.Prepare(c.Entry, r.group.cfg.Clock()); err != nil {
		return nil, err
	}
	return nil, tenancy.CheckShare(r.group.State(), c.Entry)
}

// keyed returns the answer to a change of the key that an operation names.
func keyed[M proto.Message](
	id func(M) string,
) func(c *clusterpb.ControlChanged, before, after *clusterpb.ControlState, op M) {
	return func(c *clusterpb.ControlChanged, before, after *clusterpb.ControlState, op M) {
		old := tenancy.Key(before, id(op))
		c.Existed, c.Key, c.AccessVersion = old != nil, tenancy.Key(after, id(op)), after.AccessVersion
		if c.Key == nil {
			c.Key = old
		}
	}
}

func addedKey(add *clusterpb.AddKey) string { return add.GetKey().GetId() }

// named returns the answer to a change of the namespace that an operation names.
func named[M proto.Message](
	name func(M) string,
) func(c *clusterpb.ControlChanged, before, after *clusterpb.ControlState, op M) {
	return func(c *clusterpb.ControlChanged, before, after *clusterpb.ControlState, op M) {
		c.Existed, c.AccessVersion = tenancy.Find(before, name(op)) != nil, after.AccessVersion
		c.Namespace, c.Operation = tenancy.Find(after, name(op)), tenancy.Deletion(after, name(op))
	}
}

func setName(set *clusterpb.SetNamespace) string { return set.GetNamespace().GetName() }

func answerVersion[M proto.Message](c *clusterpb.ControlChanged, _, after *clusterpb.ControlState, _ M) {
	c.AccessVersion = after.AccessVersion
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
