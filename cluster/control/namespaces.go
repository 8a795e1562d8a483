package control

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/belfryhq/belfry/access"
	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
)

const (
	deleting         = clusterpb.NamespaceState_NAMESPACE_STATE_DELETING
	deletesNamespace = clusterpb.OperationKind_OPERATION_KIND_DELETE_NAMESPACE
)

// defaultNamespace stands for the default namespace of a state without a record of it.
var defaultNamespace = &clusterpb.Namespace{Name: task.DefaultNamespace}

// Namespace returns a namespace, or nil if there is none. The caller must not change it. An empty name stands for the
// default namespace.
func Namespace(s *clusterpb.ControlState, name string) *clusterpb.Namespace {
	name = task.CanonicalNamespace(name)
	if at, found := findNamespace(s, name); found {
		return s.Namespaces[at]
	}
	if name == task.DefaultNamespace {
		return defaultNamespace
	}
	return nil
}

// checkActive returns a *task.FieldError for a namespace that does not exist, or is being deleted.
func checkActive(s *clusterpb.ControlState, field, namespace string) error {
	switch found := Namespace(s, namespace); {
	case found == nil:
		return &task.FieldError{Field: field, Detail: fmt.Sprintf("is %q, which does not exist", namespace)}
	case found.State == deleting:
		return &task.FieldError{Field: field, Detail: fmt.Sprintf("is %q, which is being deleted", namespace)}
	}
	return nil
}

// Namespaces returns all namespaces by name, the default one included. The caller must not change them.
func Namespaces(s *clusterpb.ControlState) []*clusterpb.Namespace {
	at, found := findNamespace(s, task.DefaultNamespace)
	if found {
		return s.Namespaces
	}
	return slices.Insert(slices.Clone(s.Namespaces), at, defaultNamespace)
}

// deletingNamespaces returns the names of the namespaces that are being deleted.
func deletingNamespaces(s *clusterpb.ControlState) []string {
	var names []string
	for _, n := range s.Namespaces {
		if n.State == deleting {
			names = append(names, n.Name)
		}
	}
	return names
}

// namespaceDeletion returns the operation that deletes a namespace, or nil if none is under way.
func namespaceDeletion(s *clusterpb.ControlState, name string) *clusterpb.Operation {
	if at := deletionOf(s, name); at >= 0 {
		return s.Operations[at]
	}
	return nil
}

func deletionOf(s *clusterpb.ControlState, name string) int {
	return slices.IndexFunc(s.Operations, func(op *clusterpb.Operation) bool {
		return op.Kind == deletesNamespace && op.Namespace == name &&
			op.State == clusterpb.OperationState_OPERATION_STATE_RUNNING
	})
}

func findNamespace(s *clusterpb.ControlState, name string) (at int, found bool) {
	return slices.BinarySearchFunc(s.Namespaces, name, func(n *clusterpb.Namespace, name string) int {
		return strings.Compare(n.Name, name)
	})
}

// applySetNamespace makes a namespace, or replaces its quotas.
func applySetNamespace(s *clusterpb.ControlState, op *clusterpb.SetNamespace) error {
	given := op.GetNamespace()
	if given.GetName() == "" {
		return errors.New("a namespace has a name")
	}
	at, found := findNamespace(s, given.Name)
	switch {
	case given.Name == task.DefaultNamespace:
		given.CreatedMs = 0
	case found && s.Namespaces[at].State == deleting:
		return fmt.Errorf("namespace %s is being deleted; it can be made again when that has ended", given.Name)
	case found:
		given.CreatedMs = s.Namespaces[at].CreatedMs
	case len(s.Namespaces) >= maxNamespaces:
		return &task.FieldError{Field: "namespaces", Detail: "are as many as may be", Limit: fmt.Sprint(maxNamespaces)}
	}
	if found && proto.Equal(s.Namespaces[at], given) {
		return nil
	}
	s.Namespaces = slices.Clone(s.Namespaces)
	if found {
		s.Namespaces[at] = given
	} else {
		s.Namespaces = slices.Insert(s.Namespaces, at, given)
		removePolicies(s, given.Name) // one that came while an earlier namespace of the name ended
	}
	s.AccessVersion++
	return nil
}

// applyDeleteNamespace begins to delete a namespace, or only makes the operation if the deletion has lost that, and
// ends the bulk operations in the namespace.
func applyDeleteNamespace(s *clusterpb.ControlState, op *clusterpb.DeleteNamespace) error {
	if op.GetName() == task.DefaultNamespace {
		return fmt.Errorf("namespace %s always exists, and cannot be deleted", task.DefaultNamespace)
	}
	s.Operations = slices.Clone(s.Operations)
	if at, found := findNamespace(s, op.GetName()); found && deletionOf(s, op.Name) < 0 {
		gone := proto.CloneOf(s.Namespaces[at])
		gone.State = deleting
		s.Namespaces = slices.Clone(s.Namespaces)
		s.Namespaces[at] = gone
		s.Operations = append(s.Operations, &clusterpb.Operation{
			Id: op.Operation, Kind: deletesNamespace, Namespace: op.Name, Total: op.Total, BeganMs: op.AtMs,
		})
		s.AccessVersion++
	}
	stopBulksIn(s, op.GetName(), op.GetAtMs())
	forgetOperations(s)
	return nil
}

// applyEndNamespace removes a namespace with its policies, the grants for it and the records of its bulk operations,
// and ends the operation of the deletion.
func applyEndNamespace(s *clusterpb.ControlState, op *clusterpb.EndNamespace) error {
	at, found := findNamespace(s, op.GetName())
	if found && s.Namespaces[at].State != deleting {
		return fmt.Errorf("namespace %s is not being deleted", op.Name)
	}
	s.Operations = slices.Clone(s.Operations)
	if found {
		s.Namespaces = slices.Delete(slices.Clone(s.Namespaces), at, at+1)
		removePolicies(s, op.Name)
		removeGrants(s, op.Name)
		if at := deletionOf(s, op.Name); at >= 0 {
			done := proto.CloneOf(s.Operations[at])
			done.State, done.EndedMs = clusterpb.OperationState_OPERATION_STATE_DONE, op.AtMs
			s.Operations[at] = done
		}
		s.AccessVersion++
	}
	forgetBulks(s, op.GetName())
	forgetOperations(s)
	return nil
}

// removePolicies removes the policies and the calendars of a namespace.
func removePolicies(s *clusterpb.ControlState, namespace string) {
	of := func(p *fsmpb.QueuePolicy) bool { return p.Namespace == namespace }
	in := func(c *fsmpb.Calendar) bool { return c.Namespace == namespace }
	if !slices.ContainsFunc(s.Queues, of) && !slices.ContainsFunc(s.Calendars, in) {
		return
	}
	s.Queues = slices.DeleteFunc(slices.Clone(s.Queues), of)
	s.Calendars = slices.DeleteFunc(slices.Clone(s.Calendars), in)
	s.QueuesVersion++
}

// removeGrants removes the grants for a namespace, and the keys that are left without any.
func removeGrants(s *clusterpb.ControlState, namespace string) {
	of := func(g *clusterpb.KeyGrant) bool { return g.Namespace == namespace }
	var kept []*clusterpb.ApiKey
	for _, key := range s.ApiKeys {
		if slices.ContainsFunc(key.Grants, of) {
			key = proto.CloneOf(key)
			key.Grants = slices.DeleteFunc(key.Grants, of)
		}
		if len(key.Grants) > 0 {
			kept = append(kept, key)
		}
	}
	s.ApiKeys = kept
}

// onNamespace reports whether an operation is about a namespace.
func onNamespace(op *clusterpb.Operation) bool {
	return op.GetKind() == deletesNamespace
}

// named returns the answer to a change of the namespace that an operation names.
func named[M proto.Message](
	name func(M) string,
) func(c *clusterpb.ControlChanged, before, after *clusterpb.ControlState, op M) {
	return func(c *clusterpb.ControlChanged, before, after *clusterpb.ControlState, op M) {
		c.Existed, c.AccessVersion = Namespace(before, name(op)) != nil, after.AccessVersion
		c.Namespace, c.Operation = Namespace(after, name(op)), namespaceDeletion(after, name(op))
	}
}

func setName(set *clusterpb.SetNamespace) string { return set.GetNamespace().GetName() }

// share returns the number of a cluster's n places that one namespace may take: half of them beside other namespaces,
// else all. So the administrator of one namespace cannot take all places from the others. The leader checks the share
// before it proposes an entry. Applying does not check it, so concurrent calls may exceed it by a few.
func share(s *clusterpb.ControlState, n int) int {
	if len(Namespaces(s)) > 1 {
		return n / 2
	}
	return n
}

func prepareNamespace(given *clusterpb.Namespace, now time.Time) error {
	if err := access.CheckNamespace("namespace", given.GetName()); err != nil {
		return fieldError(err)
	}
	if err := QuotaLimits(given.Quotas).Check(); err != nil {
		return fieldError(err)
	}
	given.State, given.CreatedMs = clusterpb.NamespaceState_NAMESPACE_STATE_ACTIVE, now.UnixMilli()
	return nil
}

func prepareDelete(del *clusterpb.DeleteNamespace, now time.Time) error {
	if del.GetName() == "" || del.Operation == "" {
		return fmt.Errorf("%w: a deletion has a namespace and an id", task.ErrNotProposed)
	}
	del.AtMs = now.UnixMilli()
	return nil
}
