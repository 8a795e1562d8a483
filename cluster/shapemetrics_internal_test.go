package cluster

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/belfryhq/belfry/cluster/clusterpb"
)

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
	if err := testutil.CollectAndCompare(m, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
	if shape = nil; testutil.CollectAndCount(m, "belfry_moves_waiting") != 0 {
		t.Error("a node that does not lead the control group knows of moves that wait")
	}
}
