package control

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/belfryhq/belfry/access"
	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/cluster/internal/tenancy"
	"github.com/belfryhq/belfry/fsm/task"
)

func newKey(id string) *clusterpb.ControlEntry {
	return &clusterpb.ControlEntry{Op: &clusterpb.ControlEntry_AddKey{AddKey: &clusterpb.AddKey{Key: &clusterpb.ApiKey{
		Id: id, Name: "ci", Secrets: []*clusterpb.KeySecret{{Hash: HashToken(id)}},
		Grants: []*clusterpb.KeyGrant{{Role: clusterpb.KeyRole_KEY_ROLE_READ, Namespace: access.AllNamespaces}},
	}}}}
}

func revoked(id string) *clusterpb.ControlEntry {
	return &clusterpb.ControlEntry{Op: &clusterpb.ControlEntry_RemoveKey{RemoveKey: &clusterpb.RemoveKey{Id: id}}}
}

func namespace(name string) *clusterpb.ControlEntry {
	return &clusterpb.ControlEntry{Op: &clusterpb.ControlEntry_SetNamespace{SetNamespace: &clusterpb.SetNamespace{
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
		change := func(e *clusterpb.ControlEntry) *clusterpb.ControlChanged {
			t.Helper()
			changed, err := g.Change(t.Context(), asking(e))
			if err != nil || changed.Impossible != "" {
				t.Fatalf("%v: %v, %v", e, changed, err)
			}
			return changed
		}
		if made := change(newKey("k1")); made.Existed || made.Key.GetId() != "k1" || made.AccessVersion != g.State().AccessVersion {
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
		if _, err := g.Change(t.Context(), asking(namespace("Shop"))); !isFieldError(err) {
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
