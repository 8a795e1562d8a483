package cluster_test

import (
	"testing"
	"testing/synctest"

	"github.com/belfryhq/belfry/cluster"
	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/cluster/internal/clustertest"
	"github.com/belfryhq/belfry/fsm/fsmpb"
)

// Operators split a shard, move slots and balance the shards. The balance goes on after the crash of each node, the
// leader of the control group among them. Each task is there at the end.
func TestOperationsOnSlots(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const nodes, shards = 3, 8
		c := clustertest.New(t, nodes, func(_ int, cfg *cluster.Config) { cfg.StepPause = stepPause })
		kept := scheduleKept(t, c, 600, 0)
		operate(t, c, &clusterpb.Operation{Kind: clusterpb.OperationKind_OPERATION_KIND_SPLIT, Shard: 1})
		operate(t, c, &clusterpb.Operation{
			Kind: clusterpb.OperationKind_OPERATION_KIND_MOVE_SLOTS, Shard: 2, Slots: []*fsmpb.SlotRange{{First: 0, End: 64}},
		})
		if v := lastNode(c).View(t.Context()); !v.Shards[1].Owns(63) || v.Shards[0].Owns(0) || len(v.SlotMoves) > 0 {
			t.Errorf("shard 2 has %v, moves: %v", v.Shards[1].Slots, v.SlotMoves)
		}
		grow := &clusterpb.Operation{Kind: clusterpb.OperationKind_OPERATION_KIND_BALANCE, Shards: shards}
		mustRefuse(t, c, &clusterpb.Operation{Kind: grow.Kind, Shards: 3}, "shards are not merged")
		began, err := c.Node(0).Operations().Begin(t.Context(), grow, false)
		if err != nil || began.Operation.Total == 0 || len(began.Moves) == 0 {
			t.Fatalf("%v, %v", began, err)
		}
		if op, _ := c.Node(0).Operations().Operation(began.Operation.Id); op.GetEndedMs() > 0 {
			t.Error("the balance is reached before the crashes")
		}
		for i := range nodes {
			c.Crash(i)
			c.Start(i)
			c.WaitReady()
		}
		operate(t, c, grow)
		for _, s := range lastNode(c).View(t.Context()).Shards {
			owned := uint32(0)
			for _, r := range s.Slots {
				owned += r.End - r.First
			}
			if owned != 4096/shards {
				t.Errorf("shard %d owns %d slots", s.ID, owned)
			}
		}
		checkListed(t, c, kept)
	})
}
