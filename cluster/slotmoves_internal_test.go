package cluster

import (
	"testing"
	"time"

	"github.com/belfryhq/belfry/client/view"
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
