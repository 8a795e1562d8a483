package tenants

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/belfryhq/belfry/client/view"
	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/cluster/control"
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/quota"
)

// PutNamespace makes a namespace, or replaces its quotas. The error is also a *task.ImpossibleError for a namespace
// that is being deleted; see NewKey.
func (t *Tenants) PutNamespace(
	ctx context.Context, name string, limits quota.Limits,
) (put view.Namespace, created bool, err error) {
	changed, err := t.change(ctx, &clusterpb.ControlEntry{
		Op: &clusterpb.ControlEntry_SetNamespace{SetNamespace: &clusterpb.SetNamespace{
			Namespace: &clusterpb.Namespace{Name: name, Quotas: control.QuotasOf(limits)},
		}},
	})
	if err != nil {
		return view.Namespace{}, false, err
	}
	return namespaceOf(changed.Namespace), !changed.Existed, nil
}

// DeleteNamespace begins to delete a namespace, and returns the operation that goes on with it, or the one under way.
// It returns nil if there is no such namespace. The error is also a *task.ImpossibleError for the default namespace;
// see NewKey.
func (t *Tenants) DeleteNamespace(ctx context.Context, name string) (*clusterpb.Operation, error) {
	total := uint64(0)
	if _, exists := t.Namespace(name); exists {
		var err error
		if total, err = t.cfg.Tasks.Count(ctx, name); err != nil {
			t.cfg.Logger.Info("the tasks of a namespace to delete are not counted", "namespace", name, "err", err)
		}
	}
	changed, err := t.change(ctx, &clusterpb.ControlEntry{
		Op: &clusterpb.ControlEntry_DeleteNamespace{DeleteNamespace: &clusterpb.DeleteNamespace{
			Name: name, Operation: control.NewOperationID(), Total: uint32(min(total, math.MaxUint32)),
		}},
	})
	return changed.GetOperation(), err
}

// Namespaces returns the namespaces that this node knows, by name: the default one alone while the node knows nothing.
func (t *Tenants) Namespaces() []view.Namespace {
	known := t.roster.Load().namespaces
	if len(known) == 0 {
		return []view.Namespace{*t.find(task.DefaultNamespace)}
	}
	var all []view.Namespace
	for _, n := range known {
		all = append(all, *n)
	}
	slices.SortFunc(all, func(a, b view.Namespace) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// Namespace returns a namespace as far as this node knows. The default namespace always exists.
func (t *Tenants) Namespace(name string) (n view.Namespace, exists bool) {
	if found := t.find(name); found != nil {
		return *found, true
	}
	return view.Namespace{}, false
}

// find returns a namespace of the roster, or nil if there is none. The caller must not change it.
func (t *Tenants) find(name string) *view.Namespace {
	name = task.CanonicalNamespace(name)
	if found := t.roster.Load().namespaces[name]; found != nil || name != task.DefaultNamespace {
		return found
	}
	return &view.Namespace{Name: name, State: active}
}

// NamespaceActive reports whether a namespace exists and takes new work, as far as this node knows.
func (t *Tenants) NamespaceActive(name string) bool {
	n := t.find(name)
	return n != nil && n.State == active
}

// Weight returns the weight of a namespace beside others, as far as this node knows.
func (t *Tenants) Weight(name string) int {
	if n := t.find(name); n != nil {
		return int(max(n.Weight, quota.DefaultWeight))
	}
	return quota.DefaultWeight
}

// Admit returns an error for a command that makes work in a namespace that takes none. The leader of a shard asks it
// for each command, so that a node that has not heard of a deletion brings no task back. The error wraps
// task.ErrNotProposed for a namespace that is unknown here, since it may have been made just now.
func (t *Tenants) Admit(c *fsmpb.Command) error {
	if c.Namespace == "" || c.Namespace == task.DefaultNamespace || !makesWork(c) {
		return nil
	}
	switch n := t.find(c.Namespace); {
	case n == nil:
		return fmt.Errorf("%w: the leader of the shard does not know namespace %s", task.ErrNotProposed, c.Namespace)
	case n.State == deleting:
		return &task.FieldError{Field: "namespace", Detail: fmt.Sprintf("%s is being deleted", c.Namespace)}
	}
	return nil
}

// makesWork reports whether a command brings a task, or has one done.
func makesWork(c *fsmpb.Command) bool {
	switch c.Op.(type) {
	case *fsmpb.Command_Schedule, *fsmpb.Command_Touch, *fsmpb.Command_Patch, *fsmpb.Command_FireNow,
		*fsmpb.Command_Replay:
		return true
	}
	return false
}
