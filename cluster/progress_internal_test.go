package cluster

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/belfryhq/belfry/client/view"
	"github.com/belfryhq/belfry/cluster/clusterpb"
)

// TestProgressCountsCopiesInPart drains node a of two shards of 100 bytes. The copy of the first is half way; the
// second has not begun and says why.
func TestProgressCountsCopiesInPart(t *testing.T) {
	half := 0.5
	v := &View{statuses: statuses{"c": {Replicas: []*clusterpb.ReplicaStatus{
		{Shard: 1, SnapshotBytes: 50, ReceivedBytes: 25, ReceivedRate: 10},
	}}}}
	v.Waits = "node d has just come up"
	v.Shards = []view.Shard{
		{ID: 1, Leader: "a", Target: []string{"b", "c"}, Bytes: 100, Replicas: []view.Replica{
			{Node: "a", Voter: true}, {Node: "b", Voter: true}, {Node: "c", Received: &half},
		}},
		{ID: 2, Target: []string{"b", "c"}, Waits: "one at a time", Bytes: 100, Replicas: []view.Replica{
			{Node: "a", Voter: true}, {Node: "b", Voter: true},
		}},
		{ID: 3, Leader: "b", Target: []string{"b", "d"}, Waits: "no part of it", Bytes: 100, Replicas: []view.Replica{
			{Node: "b", Voter: true},
		}},
	}
	op := &clusterpb.Operation{Kind: clusterpb.OperationKind_OPERATION_KIND_DRAIN, Node: "a", Total: 4}
	got := v.progress(op, 2, nil)
	if got.Done != 2 || got.Percent != 62.5 || got.BytesLeft != 150 || got.BytesPerSecond != 10 {
		t.Errorf("%d done, %v %%, %d bytes left, %d a second", got.Done, got.Percent, got.BytesLeft, got.BytesPerSecond)
	}
	if want := []string{"node d has just come up", "one at a time"}; !slices.Equal(got.Waits, want) {
		t.Errorf("waits: %q, want %q", got.Waits, want)
	}
	rest := &clusterpb.Operation{Kind: clusterpb.OperationKind_OPERATION_KIND_REST, Node: "a", Total: 2}
	if got := v.progress(rest, 0, nil); got.Done != 1 || got.Percent != 50 {
		t.Errorf("a rest: %d done, %v %%", got.Done, got.Percent)
	}
	op.State = clusterpb.OperationState_OPERATION_STATE_DONE
	if got := v.progress(op, 0, nil); got.Done != 4 || got.Percent != 100 || len(got.Waits) > 0 {
		t.Errorf("at the end: %d done, %v %%, waits %q", got.Done, got.Percent, got.Waits)
	}
}

// TestReasonsNameTheNodes checks that reasons have names of nodes instead of ids, if the names are distinct.
func TestReasonsNameTheNodes(t *testing.T) {
	state := &clusterpb.ControlState{Nodes: []*clusterpb.Node{
		{Id: "idone", Name: "n1"}, {Id: "idtwo", Name: "twin"}, {Id: "idthree", Name: "twin"}, {Id: "idfour"},
	}}
	v := new(View)
	v.Shards = []view.Shard{{ID: 1, Waits: "node idtwo waits for idone"}}
	v.fillShape(state, &clusterpb.Shape{Waits: "idone, idfour"}, time.Time{})
	if v.Waits != "n1, idfour" || v.Shards[0].Waits != "node idtwo waits for n1" {
		t.Errorf("%q, %q", v.Waits, v.Shards[0].Waits)
	}
}

// TestProgressNamesTheMissingLeader checks that a view without the control group's leader says so.
func TestProgressNamesTheMissingLeader(t *testing.T) {
	v := &View{}
	v.fillShape(&clusterpb.ControlState{Operations: []*clusterpb.Operation{{Total: 1}}}, nil, time.Time{})
	if v.Waits == "" || len(v.Operations[0].Waits) != 1 {
		t.Errorf("waits %q, the operation %q", v.Waits, v.Operations[0].Waits)
	}
}

// TestProgressOfDeletions checks that the deletion of a namespace shows the tasks that are left and its own reason to
// wait, and not that of replicas.
func TestProgressOfDeletions(t *testing.T) {
	running := &clusterpb.Operation{
		Kind: clusterpb.OperationKind_OPERATION_KIND_DELETE_NAMESPACE, Namespace: "shop", Total: 8,
	}
	done := &clusterpb.Operation{
		Kind: running.Kind, Namespace: "shop", Total: 5, EndedMs: 1,
		State: clusterpb.OperationState_OPERATION_STATE_DONE,
	}
	state := &clusterpb.ControlState{
		Operations: []*clusterpb.Operation{done, running}, Nodes: []*clusterpb.Node{{Id: "idone", Name: "n1"}},
	}
	began := &clusterpb.Deletion{Left: 2, Waits: "node idone is silent"}
	for name, c := range map[string]struct {
		shape *clusterpb.Shape
		done  int
		waits string
	}{
		"no leader answers":       {nil, 0, "[no node that answers leads the control group]"},
		"the leader is new":       {&clusterpb.Shape{Waits: "no node takes replicas"}, 0, "[]"},
		"the leader has progress": {&clusterpb.Shape{Deletions: map[string]*clusterpb.Deletion{"shop": began}}, 6, "[node n1 is silent]"},
	} {
		v := &View{}
		v.fillShape(state, c.shape, time.Time{})
		if got := v.Operations[0]; got.Done != 5 || got.Percent != 100 || len(got.Waits) > 0 {
			t.Errorf("%s: an earlier one of the name: %+v", name, got)
		}
		if got := v.Operations[1]; got.Done != c.done || got.Percent > 99 || fmt.Sprint(got.Waits) != c.waits {
			t.Errorf("%s: %d done, %v %%, waits %q", name, got.Done, got.Percent, got.Waits)
		}
	}
}
