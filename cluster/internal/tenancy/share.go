package tenancy

import (
	"fmt"

	"github.com/belfryhq/belfry/access"
	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/fsm/task"
)

// Share returns the number of a cluster's n places that one namespace may take: half of them beside other namespaces,
// else all. So the administrator of one namespace cannot take all places from the others. The leader checks the share
// before it proposes an entry. Applying does not check it, so concurrent calls may exceed it by a few.
func Share(s *clusterpb.ControlState, n int) int {
	if len(List(s)) > 1 {
		return n / 2
	}
	return n
}

// CheckShare returns a *task.FieldError for a change that adds a key beyond the share of its namespace. Keys of all
// namespaces, or of several, belong to the cluster and are not counted.
func CheckShare(s *clusterpb.ControlState, entry *clusterpb.ControlEntry) error {
	key := entry.GetAddKey().GetKey()
	namespace := soleNamespace(key)
	if namespace == "" || Key(s, key.Id) != nil {
		return nil
	}
	keys := 0
	for _, k := range s.ApiKeys {
		if soleNamespace(k) == namespace {
			keys++
		}
	}
	if share := Share(s, MaxKeys); share < MaxKeys && keys >= share {
		return &task.FieldError{
			Field: "keys", Limit: fmt.Sprintf("%d of one namespace", share),
			Detail: fmt.Sprintf("of %s alone are as many as may be beside other namespaces; revoke one that is not needed",
				namespace),
		}
	}
	return nil
}

// soleNamespace returns the only namespace that a key has grants of, or "".
func soleNamespace(k *clusterpb.ApiKey) (namespace string) {
	for i, g := range k.GetGrants() {
		switch {
		case g.GetNamespace() == access.AllNamespaces:
			return ""
		case i == 0:
			namespace = task.CanonicalNamespace(g.GetNamespace())
		case task.CanonicalNamespace(g.GetNamespace()) != namespace:
			return ""
		}
	}
	return namespace
}
