package control

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/belfryhq/belfry/cluster/clusterpb"
)

func beginBulk(id, namespace string) *clusterpb.ControlEntry {
	return &clusterpb.ControlEntry{Op: &clusterpb.ControlEntry_BeginBulk{BeginBulk: &clusterpb.BeginBulk{
		Operation: &clusterpb.BulkOperation{
			Id: id, Kind: clusterpb.BulkKind_BULK_KIND_CANCEL, Namespace: namespace, Call: 7,
		},
	}}}
}

func stopBulk(id string) *clusterpb.ControlEntry {
	return &clusterpb.ControlEntry{Op: &clusterpb.ControlEntry_StopBulk{StopBulk: &clusterpb.StopBulk{Id: id}}}
}

// TestBulkOperationsBeginAndStop changes bulk operations through a group of one replica, which has no way to tasks and
// so carries none on.
func TestBulkOperationsBeginAndStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := single(t, still{})
		leads := func() bool { return g.leading.Load() != nil }
		until(t, g, "leading", func(*clusterpb.ControlState) bool { return leads() })
		change := func(e *clusterpb.ControlEntry) *clusterpb.ControlChanged {
			t.Helper()
			changed, err := g.Change(t.Context(), asking(e))
			if err != nil {
				t.Fatal(err)
			}
			return changed
		}
		first := change(beginBulk("op-1", "default"))
		if op := first.Bulk; op.GetId() != "op-1" || op.BeganMs == 0 || op.Call != 7 || first.Impossible != "" {
			t.Fatalf("begun: %v", first)
		}
		if again := change(beginBulk("op-1", "other")); again.Bulk != first.Bulk {
			t.Errorf("begun again: %v", again)
		}
		if none := change(beginBulk("op-2", "none")); !strings.Contains(none.Impossible, "namespace none") {
			t.Errorf("in a namespace that does not exist: %v", none)
		}
		if none := change(stopBulk("op-9")); none.Bulk != nil || none.Impossible != "" {
			t.Errorf("none to stop: %v", none)
		}
		for range 2 {
			if op := change(stopBulk("op-1")).Bulk; op.GetState() != clusterpb.OperationState_OPERATION_STATE_STOPPED {
				t.Errorf("stopped: %v", op)
			}
		}
	})
}

// TestDeletionOfANamespaceEndsItsBulkOperations applies the entries of a deletion.
func TestDeletionOfANamespaceEndsItsBulkOperations(t *testing.T) {
	s := applied(t, applied(t, formed(t), beginBulk("a", "shop")), beginBulk("b", "default"))
	s = applied(t, s, &clusterpb.ControlEntry{Op: &clusterpb.ControlEntry_DeleteNamespace{
		DeleteNamespace: &clusterpb.DeleteNamespace{Name: "shop", Operation: "op", AtMs: 9},
	}})
	if a, b := FindBulk(s, "a"), FindBulk(s, "b"); a.GetEndedMs() != 9 || b.GetEndedMs() != 0 {
		t.Errorf("after the deletion has begun: %v, %v", a, b)
	}
	s = applied(t, s, &clusterpb.ControlEntry{Op: &clusterpb.ControlEntry_EndNamespace{
		EndNamespace: &clusterpb.EndNamespace{Name: "shop", AtMs: 10},
	}})
	if a, b := FindBulk(s, "a"), FindBulk(s, "b"); a != nil || b == nil {
		t.Errorf("after its end: %v, %v", a, b)
	}
}
