package tenancy

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

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

// Find returns a namespace, or nil if there is none. The caller must not change it. An empty name stands for the
// default namespace.
func Find(s *clusterpb.ControlState, name string) *clusterpb.Namespace {
	name = task.CanonicalNamespace(name)
	if at, found := findNamespace(s, name); found {
		return s.Namespaces[at]
	}
	if name == task.DefaultNamespace {
		return defaultNamespace
	}
	return nil
}

// CheckActive returns a *task.FieldError for a namespace that does not exist, or is being deleted.
func CheckActive(s *clusterpb.ControlState, field, namespace string) error {
	switch found := Find(s, namespace); {
	case found == nil:
		return &task.FieldError{Field: field, Detail: fmt.Sprintf("is %q, which does not exist", namespace)}
	case found.State == deleting:
		return &task.FieldError{Field: field, Detail: fmt.Sprintf("is %q, which is being deleted", namespace)}
	}
	return nil
}

// List returns all namespaces by name, the default one included. The caller must not change them.
func List(s *clusterpb.ControlState) []*clusterpb.Namespace {
	at, found := findNamespace(s, task.DefaultNamespace)
	if found {
		return s.Namespaces
	}
	return slices.Insert(slices.Clone(s.Namespaces), at, defaultNamespace)
}

// Deleting returns the names of the namespaces that are being deleted.
func Deleting(s *clusterpb.ControlState) []string {
	var names []string
	for _, n := range s.Namespaces {
		if n.State == deleting {
			names = append(names, n.Name)
		}
	}
	return names
}

// Deletion returns the operation that deletes a namespace, or nil if none is under way.
func Deletion(s *clusterpb.ControlState, name string) *clusterpb.Operation {
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

// SetNamespace makes a namespace, or replaces its quotas.
func SetNamespace(s *clusterpb.ControlState, op *clusterpb.SetNamespace) error {
	given := op.GetNamespace()
	if given.GetName() == "" {
		return errors.New("a namespace has a name")
	}
	at, found := findNamespace(s, given.Name)
	switch {
	case given.Name == task.DefaultNamespace:
		given.CreatedMs = 0
	case found && s.Namespaces[at].State == deleting:
		return refuse("namespace %s is being deleted; it can be made again when that has ended", given.Name)
	case found:
		given.CreatedMs = s.Namespaces[at].CreatedMs
	case len(s.Namespaces) >= MaxNamespaces:
		return &task.FieldError{Field: "namespaces", Detail: "are as many as may be", Limit: fmt.Sprint(MaxNamespaces)}
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

// DeleteNamespace begins a deletion, or only its operation if the deletion has lost that.
func DeleteNamespace(s *clusterpb.ControlState, op *clusterpb.DeleteNamespace) error {
	at, found := findNamespace(s, op.GetName())
	switch {
	case op.GetName() == task.DefaultNamespace:
		return refuse("namespace %s always exists, and cannot be deleted", task.DefaultNamespace)
	case !found || deletionOf(s, op.Name) >= 0:
		return nil
	}
	gone := proto.CloneOf(s.Namespaces[at])
	gone.State = deleting
	s.Namespaces = slices.Clone(s.Namespaces)
	s.Namespaces[at] = gone
	s.Operations = append(slices.Clone(s.Operations), &clusterpb.Operation{
		Id: op.Operation, Kind: deletesNamespace, Namespace: op.Name, Total: op.Total, BeganMs: op.AtMs,
	})
	s.AccessVersion++
	return nil
}

// EndNamespace removes a namespace with its policies and the grants for it, and ends its operation.
func EndNamespace(s *clusterpb.ControlState, op *clusterpb.EndNamespace) error {
	at, found := findNamespace(s, op.GetName())
	switch {
	case !found:
		return nil
	case s.Namespaces[at].State != deleting:
		return refuse("namespace %s is not being deleted", op.Name)
	}
	s.Namespaces = slices.Delete(slices.Clone(s.Namespaces), at, at+1)
	removePolicies(s, op.Name)
	removeGrants(s, op.Name)
	s.Operations = slices.Clone(s.Operations)
	if at := deletionOf(s, op.Name); at >= 0 {
		done := proto.CloneOf(s.Operations[at])
		done.State, done.EndedMs = clusterpb.OperationState_OPERATION_STATE_DONE, op.AtMs
		s.Operations[at] = done
	}
	s.AccessVersion++
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
