package cluster

import (
	"testing"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/fsm/fsmpb"
)

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
	v := View{Shards: []ShardView{{ID: 1, Slots: []SlotRange{{0, 100}}, Replicas: []ReplicaView{{Bytes: 1200}}}}}
	v.fillShape(state, shape)
	op := v.Operations[0]
	if op.Done != 100 || op.Tasks != 12 || op.Left != 300 || op.Percent < 83 || op.Percent > 84 || len(op.Waits) != 1 {
		t.Errorf("%d done, %d tasks, %d bytes left, %.1f %%, waits %q", op.Done, op.Tasks, op.Left, op.Percent, op.Waits)
	}
	if m := v.Moves[0]; m.Number != 7 || m.Slots != 50 || m.Tasks != 12 || m.Tries != 2 || m.Step != "copy" {
		t.Errorf("%+v", m)
	}
}
