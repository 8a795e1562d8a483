package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/belfryhq/belfry/cluster"
	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/cluster/control"
	"github.com/belfryhq/belfry/cluster/internal/clustertest"
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/internal/assert"
)

// stepping makes moves of slots pause before each step, so that crashes and calls meet them.
func stepping(_ int, cfg *cluster.Config) { cfg.Shards, cfg.StepPause = 3, stepPause }

// Shards split while tasks are scheduled and fired through all nodes. No call fails, and each task is delivered.
func TestShardsSplitUnderLoad(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const nodes, splits, lasting = 3, 3, 400
		c := clustertest.New(t, nodes, stepping)
		kept := scheduleKept(t, c, lasting, 0)
		ctx, stop := context.WithCancel(t.Context())
		var writers sync.WaitGroup
		written := make([]int, nodes)
		for w := range nodes {
			writers.Go(func() {
				pace := time.NewTicker(5 * time.Millisecond)
				defer pace.Stop()
				for i := 0; ctx.Err() == nil; i++ {
					<-pace.C
					cmd := schedule(fmt.Sprintf("task-%d-%d", w, i), time.Duration(i%300)*time.Millisecond)
					cmd.Key = &fsmpb.Key{Hash: uint64(i + 1), Call: 1}
					if err := do(c.Node(w), cmd); err != nil {
						t.Errorf("writer %d, task %d: %v", w, i, err)
						return
					}
					written[w] = i + 1
				}
			})
		}
		before := len(c.Node(0).State().Shards)
		for i := range splits {
			c.Until("the split has begun", func() error { return splitAnywhere(c, uint32(i)+1, before+i+1) })
		}
		c.Until("the slots have moved", func() error { return haveSplit(c, before+splits) })
		stop()
		writers.Wait()
		c.Until("all tasks are delivered", func() error { return areDelivered(c, written) })
		checkListed(t, c, kept)
	})
}

// scheduleKept schedules tasks with a payload of that size through all nodes in turn, fifty at a time, and returns
// their ids.
func scheduleKept(t *testing.T, c *clustertest.Cluster, count, payload int) (ids []string) {
	t.Helper()
	nodes := c.Nodes()
	for from := 0; from < count; from += 50 {
		var cmds []*fsmpb.Command
		for i := from; i < min(from+50, count); i++ {
			cmd := schedule(fmt.Sprint("kept-", i), time.Hour)
			cmd.GetSchedule().Spec.Payload = make([]byte, payload)
			cmds, ids = append(cmds, cmd), append(ids, cmd.Id)
		}
		mustDo(t, nodes[from/50%len(nodes)], cmds...)
	}
	return ids
}

// splitAnywhere begins a split at the leader of the control group, unless the cluster has the wanted number of shards: a
// call with an unknown outcome may have begun the split.
func splitAnywhere(c *clustertest.Cluster, shard uint32, shards int) error {
	var errs []error
	for _, n := range c.Nodes() {
		if len(n.State().Shards) >= shards {
			return nil
		}
		err := n.Split(context.Background(), shard, uint32(shards)-1)
		if err == nil {
			return nil
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func haveSplit(c *clustertest.Cluster, shards int) error {
	for _, n := range c.Nodes() {
		owners := map[uint32]bool{}
		for _, r := range n.State().Slots {
			owners[r.Shard] = true
		}
		if moves := n.State().SlotMoves; len(owners) != shards || len(moves) > 0 {
			return fmt.Errorf("%d shards own slots, moves: %v", len(owners), moves)
		}
	}
	return nil
}

func areDelivered(c *clustertest.Cluster, written []int) error {
	for w, n := range written {
		for i := range n {
			if id := fmt.Sprintf("task-%d-%d", w, i); c.Deliver.Attempts(id) == 0 {
				return fmt.Errorf("%s was not delivered", id)
			}
		}
	}
	return nil
}

// checkListed checks that a listing through each node has each task that is left, once.
func checkListed(t *testing.T, c *clustertest.Cluster, ids []string) {
	t.Helper()
	for _, n := range c.Nodes() {
		seen := map[string]int{}
		for q, more := (&fsmpb.ListQuery{Limit: 90, Prefix: "kept-"}), true; more; {
			page, err := n.List(t.Context(), q, false)
			assert.NoError(t, err)
			for _, v := range page.Tasks {
				seen[v.Id]++
			}
			more, q.Slot, q.AfterId = page.More, page.Slot, page.AfterId
		}
		for _, id := range ids {
			assert.Equal(t, seen[id], 1, "%s is listed N times", id)
		}
	}
}

// A split goes on after the crash of any node, the leaders of both shards and of the control group among them.
func TestSplitSurvivesCrashes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const nodes = 3
		c := clustertest.New(t, nodes, stepping)
		kept := scheduleKept(t, c, 2000, 0)
		before := len(c.Node(0).State().Shards)
		for i := range nodes {
			c.Until("the split has begun", func() error { return splitAnywhere(c, uint32(i)+1, before+i+1) })
			assert.Error(t, haveSplit(c, before+i+1), "the split is done before the crash")
			c.Crash(i)
			c.Start(i)
			c.WaitReady()
			c.Until("the slots have moved", func() error { return haveSplit(c, before+i+1) })
		}
		checkListed(t, c, kept)
	})
}

// A copy of slots keeps to the rate of the node that leads the target.
func TestSlotsKeepToTheMoveRate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const rate, tasks, payload = 64 << 10, 100, 4 << 10
		c := clustertest.New(t, 1, func(_ int, cfg *cluster.Config) { cfg.Shards, cfg.MoveRate = 1, rate })
		scheduleKept(t, c, tasks, payload)
		began := time.Now()
		operate(t, c, &clusterpb.Operation{Kind: clusterpb.OperationKind_OPERATION_KIND_SPLIT, Shard: 1})
		took, paced := time.Since(began), metric(t, c.Registry(0), "belfry_slots_copied_bytes_total")
		least := time.Duration(paced/rate*float64(time.Second)) - time.Second/16
		if paced < tasks*payload/5 || took < least || took > least+3*time.Second {
			t.Errorf("%.0f bytes were copied within %v, and the rate is %d a second", paced, took, rate)
		}
	})
}

// A shard that outgrows its limit splits by itself, as often as it must, and the operations say so.
func TestShardsSplitByThemselves(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const nodes, tasks, payload = 3, 700, 4 << 10
		c := clustertest.New(t, nodes, func(_ int, cfg *cluster.Config) {
			cfg.Shards, cfg.Calm = 1, 200*time.Millisecond
			cfg.AutoSplit = control.AutoSplit{Bytes: 1 << 20, Shards: 8}
		})
		kept := scheduleKept(t, c, tasks, payload)
		c.Until("no shard is above the limit", func() error {
			v := lastNode(c).View(t.Context())
			if len(v.Shards) < 4 || len(v.SlotMoves) > 0 || v.AutoSplit == nil || len(v.AutoSplit.Outgrown) > 0 {
				return fmt.Errorf("%d shards, moves %v, %v", len(v.Shards), v.SlotMoves, v.AutoSplit)
			}
			return nil
		})
		splits := 0.0
		for i := range nodes {
			splits += metric(t, c.Registry(i), "belfry_auto_splits_total")
		}
		if v := lastNode(c).View(t.Context()); splits != float64(len(v.Shards)-1) || len(v.Shards) > 8 {
			t.Errorf("%d shards after %.0f splits", len(v.Shards), splits)
		}
		for _, op := range c.Node(0).State().Operations {
			if op.Kind != clusterpb.OperationKind_OPERATION_KIND_SPLIT || op.Cause == "" {
				t.Errorf("%v", op)
			}
		}
		checkListed(t, c, kept)
	})
}

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
			assert.Equal(t, owned, 4096/shards, "shard %d owns N slots", s.ID)
		}
		checkListed(t, c, kept)
	})
}
