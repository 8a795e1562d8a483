package cluster

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/belfryhq/belfry/client/view"
	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/internal/assert"
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
	want := []string{"node d has just come up", "one at a time"}
	assert.EqualSlices(t, got.Waits, want, "waits")
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

// TestViewOfBulkOperations checks the JSON of bulk operations: of a move with all conditions that waits, and of a patch
// that has just begun.
func TestViewOfBulkOperations(t *testing.T) {
	for want, op := range map[string]*clusterpb.BulkOperation{
		`{"id":"op-1","kind":"bulk","namespace":"shop","state":"running","began_at":"2026-11-21T10:00:00.000Z",` +
			`"ended_at":null,"total":9,"done":7,"percent":25,"bytes_left":0,"bytes_per_second":0,"tasks_copied":0,` +
			`"waits":["node n1 is slow"],"op":"move","filter":{"queue":"q","prefix":"o-","label":["b:c:d","a:"],` +
			`"state":["scheduled","ready"],"due_after":"2026-11-21T10:00:00.000Z","due_before":"2026-11-21T10:00:00.001Z"},` +
			`"by":"-1h30m","fire_at":"1970-01-01T00:00:00.007Z","per_second":3,"matched":9,` +
			`"outcomes":{"already_fired":5,"moved":2}}`: {
			Id: "op-1", Namespace: "shop", Kind: clusterpb.BulkKind_BULK_KIND_MOVE, BeganMs: 1795255200000, Slot: 1024,
			ByMs: -90 * 60_000, ToMs: 7, PerSecond: 3, Matched: 9, Outcomes: []*clusterpb.BulkCount{
				{Outcome: clusterpb.BulkOutcome_BULK_OUTCOME_MOVED, Tasks: 2},
				{Outcome: clusterpb.BulkOutcome_BULK_OUTCOME_ALREADY_FIRED, Tasks: 5},
			},
			Filter: &fsmpb.ListQuery{
				Queue: "q", Prefix: "o-", Labels: []*fsmpb.Label{{Name: "b", Value: "c:d"}, {Name: "a"}},
				States:     []fsmpb.State{fsmpb.State_STATE_SCHEDULED, fsmpb.State_STATE_READY},
				DueAfterMs: 1795255200000, DueBeforeMs: 1795255200001,
			},
		},
		`{"id":"op-2","kind":"bulk","namespace":"default","state":"stopped","began_at":"1970-01-01T00:00:00.001Z",` +
			`"ended_at":"1970-01-01T00:00:00.002Z","total":0,"done":0,"percent":0,"bytes_left":0,"bytes_per_second":0,` +
			`"tasks_copied":0,"waits":["node n1 is slow"],"detail":"by its caller","op":"patch","filter":{},"all":true,` +
			`"patched":["labels"],"matched":0,"outcomes":{}}`: {
			Id: "op-2", Namespace: "default", Kind: clusterpb.BulkKind_BULK_KIND_PATCH, All: true, BeganMs: 1, EndedMs: 2,
			State: clusterpb.OperationState_OPERATION_STATE_STOPPED, Detail: "by its caller",
			Filter: &fsmpb.ListQuery{}, Patch: &fsmpb.Patch{Clear: []string{"labels"}},
		},
	} {
		if text, err := json.Marshal(viewBulk(op, "node n1 is slow")); err != nil || string(text) != want {
			t.Errorf("%s, %v\nwant %s", text, err, want)
		}
	}
	waits := viewBulk(&clusterpb.BulkOperation{Stopping: true}, "").Waits
	assert.Equal(t, len(waits), 1, "an operation that stops waits for %q", waits)
	if waits := viewBulk(&clusterpb.BulkOperation{}, "").Waits; waits == nil || len(waits) > 0 {
		t.Errorf("an operation that goes on waits for %q", waits)
	}
}

// The progress of a split counts the slots that have moved, and in part those whose tasks are being copied.
func TestProgressOfASplit(t *testing.T) {
	state := &clusterpb.ControlState{
		Slots:  []*clusterpb.SlotRange{{End: 100, Shard: 1}, {First: 100, End: 200, Shard: 3}},
		Shards: []*clusterpb.Shard{{Id: 1}, {Id: 2}, {Id: 3}},
		SlotMoves: []*clusterpb.SlotMove{{
			Number: 7, Ranges: []*fsmpb.SlotRange{{First: 50, End: 100}}, From: 1, To: 3, Tries: 2,
		}},
		Operations: []*clusterpb.Operation{{
			Id: "op", Kind: clusterpb.OperationKind_OPERATION_KIND_BALANCE, Total: 150,
			Aims: []*clusterpb.SlotRange{{First: 50, End: 200, Shard: 3}},
		}},
	}
	shape := &clusterpb.Shape{Slots: map[uint64]*clusterpb.SlotsProgress{7: {Tasks: 12, Bytes: 300, Step: "copy"}}}
	var v View
	v.Shards = []view.Shard{{ID: 1, Slots: view.SlotList{{End: 100}}, Bytes: 1200}}
	v.fillShape(state, shape, time.Time{})
	op := v.Operations[0]
	if op.Done != 100 || op.TasksCopied != 12 || op.BytesLeft != 300 || op.Percent < 83 || op.Percent > 84 || len(op.Waits) != 1 {
		t.Errorf("%d done, %d tasks, %d bytes left, %.1f %%, waits %q", op.Done, op.TasksCopied, op.BytesLeft, op.Percent, op.Waits)
	}
	if m := v.SlotMoves[0]; m.Number != 7 || m.Slots != 50 || m.TasksCopied != 12 || m.Tries != 2 || m.Step != "copy" {
		t.Errorf("%+v", m)
	}
}

// The view of a move of slots, and the operation that it belongs to, say why it fails, with the names of nodes.
func TestFailingMovesSayWhy(t *testing.T) {
	state := &clusterpb.ControlState{
		Nodes: []*clusterpb.Node{{Id: "id-1", Name: "n1"}}, Shards: []*clusterpb.Shard{{Id: 1}, {Id: 2}},
		SlotMoves: []*clusterpb.SlotMove{{Number: 7, Ranges: []*fsmpb.SlotRange{{End: 50}}, From: 1, To: 2}},
		Operations: []*clusterpb.Operation{{
			Id: "op", Kind: clusterpb.OperationKind_OPERATION_KIND_SPLIT, Total: 50,
			Aims: []*clusterpb.SlotRange{{End: 50, Shard: 2}},
		}},
	}
	for givenUp, want := range []string{
		"a step of the move of 50 slots from shard 1 to shard 2 is taken again: node n1 is slow",
		"the move of 50 slots from shard 1 to shard 2 was given up 1 times and was begun anew: node n1 is slow",
	} {
		shape := &clusterpb.Shape{SlotsWait: map[uint64]*clusterpb.SlotsWait{
			7: {Reason: "node id-1 is slow", GivenUp: uint32(givenUp)},
		}}
		var v View
		v.fillShape(state, shape, time.Time{})
		if m := v.SlotMoves[0]; m.Waits != "node n1 is slow" || m.Tries != givenUp {
			t.Errorf("%+v", m)
		}
		if waits := v.Operations[0].Waits; len(waits) != 1 || waits[0] != want {
			t.Errorf("the operation waits for %q, want %q", waits, want)
		}
	}
}

func TestShapeMetrics(t *testing.T) {
	state := &clusterpb.ControlState{
		Replication: 3,
		Shards: []*clusterpb.Shard{
			{Id: 1, Replicas: []string{"a", "b", "c", "d"}, Target: []string{"b", "c", "d"}}, {Id: 2, Replicas: []string{"a"}},
		},
		Operations: []*clusterpb.Operation{
			{Kind: clusterpb.OperationKind_OPERATION_KIND_DRAIN},
			{Kind: clusterpb.OperationKind_OPERATION_KIND_DRAIN, State: clusterpb.OperationState_OPERATION_STATE_DONE},
		},
		Bulks: []*clusterpb.BulkOperation{
			{Kind: clusterpb.BulkKind_BULK_KIND_CANCEL}, {Kind: clusterpb.BulkKind_BULK_KIND_CANCEL},
			{Kind: clusterpb.BulkKind_BULK_KIND_PURGE, State: clusterpb.OperationState_OPERATION_STATE_STOPPED},
		},
	}
	shape := &clusterpb.Shape{WaitsFor: map[uint32]clusterpb.MoveWait{
		1: clusterpb.MoveWait_MOVE_WAIT_COPY, 5: clusterpb.MoveWait_MOVE_WAIT_COPY, 7: clusterpb.MoveWait_MOVE_WAIT_TURN,
	}}
	shape.AutoSplit = &clusterpb.AutoSplit{Bytes: 1, Outgrown: []uint32{1, 2}}
	m := newShapeMetrics(func() *clusterpb.ControlState { return state }, func() *clusterpb.Shape { return shape })
	want := `
# HELP belfry_moves_under_way Shards on their way to other nodes.
# TYPE belfry_moves_under_way gauge
belfry_moves_under_way 1
# HELP belfry_moves_waiting Of these, shards whose next step waits, by the class of the reason. Only the control group's leader reports it.
# TYPE belfry_moves_waiting gauge
belfry_moves_waiting{reason="copy"} 2
belfry_moves_waiting{reason="no_heir"} 0
belfry_moves_waiting{reason="no_leader"} 0
belfry_moves_waiting{reason="node_silent"} 0
belfry_moves_waiting{reason="step_failed"} 0
belfry_moves_waiting{reason="turn"} 1
# HELP belfry_operations Operations under way, and the last that have ended.
# TYPE belfry_operations gauge
belfry_operations{kind="cancel",state="running"} 2
belfry_operations{kind="drain",state="done"} 1
belfry_operations{kind="drain",state="running"} 1
belfry_operations{kind="purge",state="stopped"} 1
# HELP belfry_replicas_missing Replicas that shards have less than wanted.
# TYPE belfry_replicas_missing gauge
belfry_replicas_missing 2
# HELP belfry_replicas_wanted Replicas of all shards together, by the replication factor that operators want.
# TYPE belfry_replicas_wanted gauge
belfry_replicas_wanted 6
# HELP belfry_shards_outgrown Shards above the size at which they split by themselves. Only the control group's leader reports it, if there is such a size.
# TYPE belfry_shards_outgrown gauge
belfry_shards_outgrown 2
`
	assert.Equal(t, testutil.CollectAndCompare(m, strings.NewReader(want)), nil)
	if shape = nil; testutil.CollectAndCount(m, "belfry_moves_waiting") != 0 {
		t.Error("a node that does not lead the control group knows of moves that wait")
	}
}
