package control

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/belfryhq/belfry/access"
	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/cluster/internal/tenancy"
	"github.com/belfryhq/belfry/fsm/task"
)

func newKey(id string) *clusterpb.AccessChange {
	return &clusterpb.AccessChange{Op: &clusterpb.AccessChange_AddKey{AddKey: &clusterpb.AddKey{Key: &clusterpb.ApiKey{
		Id: id, Name: "ci", Secrets: []*clusterpb.KeySecret{{Hash: HashToken(id)}},
		Grants: []*clusterpb.KeyGrant{{Role: clusterpb.KeyRole_KEY_ROLE_READ, Namespace: access.AllNamespaces}},
	}}}}
}

func revoked(id string) *clusterpb.AccessChange {
	return &clusterpb.AccessChange{Op: &clusterpb.AccessChange_RemoveKey{RemoveKey: &clusterpb.RemoveKey{Id: id}}}
}

func namespace(name string) *clusterpb.AccessChange {
	return &clusterpb.AccessChange{Op: &clusterpb.AccessChange_SetNamespace{SetNamespace: &clusterpb.SetNamespace{
		Namespace: &clusterpb.Namespace{Name: name},
	}}}
}

// TestKeysOutliveARestart makes and removes keys, and opens the group again.
func TestKeysOutliveARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		g, _ := replica(t, dir, "a", false, []string{"a"})
		until(t, g, "placed", placed)
		if err := g.Register(t.Context(), &clusterpb.Node{Id: "a", CommandVersion: Version, Boot: 1}); err != nil {
			t.Fatal(err)
		}
		change := func(c *clusterpb.AccessChange) *clusterpb.AccessChanged {
			t.Helper()
			changed, err := g.ChangeAccess(t.Context(), c)
			if err != nil || changed.Impossible != "" {
				t.Fatalf("%v: %v, %v", c, changed, err)
			}
			return changed
		}
		if made := change(newKey("k1")); made.Existed || made.Key.GetId() != "k1" || made.Version != g.State().AccessVersion {
			t.Errorf("made: %v", made)
		}
		if again := change(newKey("k1")); !again.Existed {
			t.Errorf("a repeat: %v", again)
		}
		change(newKey("k2"))
		if gone := change(revoked("k1")); !gone.Existed || gone.Key.GetId() != "k1" {
			t.Errorf("removed: %v", gone)
		}
		if made := change(namespace("shop")); made.Existed || made.Namespace.GetName() != "shop" {
			t.Errorf("a namespace: %v", made)
		}
		if _, err := g.ChangeAccess(t.Context(), namespace("Shop")); !isFieldError(err) {
			t.Errorf("a bad name: %v", err)
		}
		closeGroup(t, g)
		g, _ = replica(t, dir, "a", false, nil)
		defer closeGroup(t, g)
		until(t, g, "as before", func(s *clusterpb.ControlState) bool {
			return tenancy.Key(s, "k2") != nil && tenancy.Key(s, "k1") == nil && s.KeysInForce && tenancy.Find(s, "shop") != nil
		})
	})
}

func isFieldError(err error) bool {
	var field *task.FieldError
	return errors.As(err, &field)
}

// TestKeysAwaitEveryBuild checks that no key is made while a node would not read the entry, and that the answer names
// the node.
func TestKeysAwaitEveryBuild(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, _ := replica(t, t.TempDir(), "a", false, []string{"a"})
		defer closeGroup(t, g)
		until(t, g, "placed", placed)
		for _, node := range []*clusterpb.Node{
			{Id: "old", Name: "n2", CommandVersion: 2, Boot: 1}, {Id: "a", Name: "n1", CommandVersion: Version, Boot: 1},
		} {
			if err := g.Register(t.Context(), node); err != nil {
				t.Fatal(err)
			}
		}
		until(t, g, "raised to 2", func(s *clusterpb.ControlState) bool { return s.Version == 2 })
		changed, err := g.ChangeAccess(t.Context(), newKey("k"))
		if err != nil || !strings.Contains(changed.Impossible, "version 3") || !strings.Contains(changed.Impossible, "node n2 (old)") {
			t.Errorf("with an older build: %v, %v", changed, err)
		}
		if g.State().KeysInForce || g.State().Version != 2 {
			t.Errorf("the state: %v", g.State())
		}
		if err := g.Register(t.Context(), &clusterpb.Node{Id: "old", Name: "n2", CommandVersion: Version, Boot: 2}); err != nil {
			t.Fatal(err)
		}
		if changed, err = g.ChangeAccess(t.Context(), newKey("k")); err != nil || changed.Key == nil {
			t.Errorf("with new builds alone: %v, %v", changed, err)
		}
	})
}

// TestShapeNeedsNoKeys checks that a cluster of versions 2 and 3 goes on with what version 2 has brought.
func TestShapeNeedsNoKeys(t *testing.T) {
	s := formed(t)
	s.Version, s.CommandVersion = 2, 2
	for _, n := range s.Nodes {
		n.CommandVersion = 2
	}
	if st, err := lookAt(s, nil).newer(); err != nil || st.halts {
		t.Errorf("the reconciler waits: %v, %v", st, err)
	}
	s.Version, s.CommandVersion = 0, 1
	if st, err := lookAt(s, nil).newer(); err != nil || !st.halts {
		t.Errorf("the reconciler does not wait for version 2: %v, %v", st, err)
	}
}

// TestDeletionsLeaveOtherOperations checks that neither an operation on nodes nor one on all shards stops the deletion
// of a namespace.
func TestDeletionsLeaveOtherOperations(t *testing.T) {
	deletion := &clusterpb.Operation{Id: "op", Kind: clusterpb.OperationKind_OPERATION_KIND_DELETE_NAMESPACE, Namespace: "shop"}
	for _, kind := range clusterpb.OperationKind_value {
		other := &clusterpb.Operation{Id: "other", Kind: clusterpb.OperationKind(kind)}
		if contradicts(other, deletion) {
			t.Errorf("%v stops the deletion", other.Kind)
		}
	}
	if (look{}).isDone(deletion) || onNode(deletion) {
		t.Error("the deletion counts as an operation on a node")
	}
	s := formed(t)
	s.Operations = []*clusterpb.Operation{deletion}
	g := growth{state: s, now: time.Now()}
	if g.busy() != "" {
		t.Error("no shard splits while a namespace is deleted")
	}
}

// TestKeysNeedACluster checks that no node changes keys before it is in a cluster.
func TestKeysNeedACluster(t *testing.T) {
	if _, err := NewReplica("a", 1).ChangeAccess(t.Context(), newKey("k")); !errors.Is(err, task.ErrNotProposed) {
		t.Error(err)
	}
}
