package cluster_test

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/belfryhq/belfry/cluster"
	"github.com/belfryhq/belfry/cluster/internal/clustertest"
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/internal/assert"
	"github.com/belfryhq/belfry/quota"
)

// isOver reports whether an error is the refusal of a quota.
func isOver(err error, q quota.Quota) bool {
	var full *quota.Exceeded
	return errors.As(err, &full) && full.Quota == q && full.Limit > 0
}

// mustBeOver fails the test unless the only command is refused by a quota.
func mustBeOver(t *testing.T, n *cluster.Node, q quota.Quota, cmd *fsmpb.Command) {
	t.Helper()
	if err := n.Do(t.Context(), []*fsmpb.Command{cmd})[0].Err; !isOver(err, q) {
		t.Errorf("%v refuses nothing: %v", q, err)
	}
}

// mustUse waits for the use of a namespace. Every node must see the same.
func mustUse(t *testing.T, c *clustertest.Cluster, namespace string, want func(task.NamespaceUse) bool) {
	t.Helper()
	c.Until("the use is as it must be", func() error {
		for _, n := range c.Nodes() {
			if use, err := n.NamespaceUse(t.Context(), namespace); err != nil || !want(use) {
				return fmt.Errorf("%+v, %w", use, err)
			}
		}
		return nil
	})
}

func inTown(id string, cmd *fsmpb.Command) *fsmpb.Command {
	cmd.Namespace, cmd.Id = "town", id
	return cmd
}

// refill schedules more tasks than there is room for, until n are made. Freed room is found after a moment, and a task
// that calls side by side make counts twice for a moment: as a claim, and as a task.
func refill(t *testing.T, c *clustertest.Cluster, namespace, prefix string, n int) {
	t.Helper()
	made, tries := 0, 0
	c.Until("the room is used", func() error {
		tries++
		made += fillQuota(t, c, namespace, fmt.Sprint(prefix, tries, "-"), 2*n+30, quota.MaxPending)
		if made < n {
			return fmt.Errorf("%d tasks of %d", made, n)
		}
		return nil
	})
	if made > n {
		t.Errorf("%d tasks in place of %d", made, n)
	}
}

// TestPendingQuota follows the level of max_pending through the calls that make tasks and those that end them.
func TestPendingQuota(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const limit = 30
		c := clustertest.New(t, 3, func(_ int, cfg *cluster.Config) { cfg.Shards = 3 })
		putNamespace(t, c.Node(0), "town", quota.Limits{MaxPending: limit})
		refill(t, c, "town", "t", limit)
		list := listed(t, c.Node(0), "town")
		testFullNamespace(t, c, list)
		testFreedRoom(t, c, list, limit)
		testLowerLimit(t, c)
	})
}

// A full namespace admits the calls that make no task, also a touch of a task that is there.
func testFullNamespace(t *testing.T, c *clustertest.Cluster, list []string) {
	t.Helper()
	twice := scheduleIn("town", list[0], "q", 2*time.Hour)
	later := inTown(list[1], &fsmpb.Command{Op: &fsmpb.Command_Patch{Patch: &fsmpb.Patch{
		Clear: []string{"payload"}, Set: &fsmpb.Spec{Payload: []byte(`"new"`)},
	}}})
	mustDo(t, c.Node(1), twice, later)
	if got, err := c.Node(1).Get(t.Context(), "town", list[1], false); err != nil || got == nil {
		t.Errorf("%v, %v", got, err)
	}
	touch := func(id string) *fsmpb.Command {
		made := scheduleIn("town", id, "q", time.Hour).GetSchedule()
		return inTown(id, &fsmpb.Command{Op: &fsmpb.Command_Touch{Touch: &fsmpb.Touch{
			DelayMs: new(int64(1000_000)), ReceivedAtMs: time.Now().UnixMilli(), OrSchedule: made,
		}}})
	}
	mustDo(t, c.Node(0), touch(list[2]))
	mustBeOver(t, c.Node(0), quota.MaxPending, touch("new"))
}

// Tasks that end leave their places to others. A call that names an id twice takes one place.
func testFreedRoom(t *testing.T, c *clustertest.Cluster, list []string, limit uint64) {
	t.Helper()
	for _, id := range list[:5] {
		mustDo(t, c.Node(1), inTown(id, &fsmpb.Command{Op: &fsmpb.Command_Cancel{Cancel: &fsmpb.Cancel{}}}))
	}
	refill(t, c, "town", "more", 5)
	n := c.Node(0)
	mustDo(t, n, inTown(list[5], &fsmpb.Command{Op: &fsmpb.Command_Cancel{Cancel: &fsmpb.Cancel{}}}))
	c.Until("the place of the task is free", func() error {
		replies := n.Do(t.Context(), []*fsmpb.Command{
			scheduleIn("town", "twice", "q", time.Hour), scheduleIn("town", "twice", "q", 2*time.Hour),
		})
		if (replies[0].Err == nil) != (replies[1].Err == nil) {
			t.Errorf("%v, %v", replies[0].Err, replies[1].Err)
		}
		return replies[0].Err
	})
	mustUse(t, c, "town", func(u task.NamespaceUse) bool { return u.Pending == limit })
}

// A limit below the number of tasks refuses new ones until so many have ended.
func testLowerLimit(t *testing.T, c *clustertest.Cluster) {
	t.Helper()
	n := c.Node(0)
	putNamespace(t, c.Node(1), "town", quota.Limits{MaxPending: 10})
	c.Until("all nodes know the limit", func() error { return knowLimits(c, "town", quota.Limits{MaxPending: 10}) })
	list := listed(t, n, "town")
	mustBeOver(t, n, quota.MaxPending, scheduleIn("town", "over", "q", time.Hour))
	mustDo(t, n, scheduleIn("town", list[0], "q", 3*time.Hour))
	for _, id := range list[:30] {
		mustDo(t, n, inTown(id, &fsmpb.Command{Op: &fsmpb.Command_Cancel{Cancel: &fsmpb.Cancel{}}}))
	}
	use, err := n.NamespaceUse(t.Context(), "town")
	if err != nil || use.Pending == 0 || use.Pending >= 10 {
		t.Fatalf("%+v, %v", use, err)
	}
	refill(t, c, "town", "low", 10-int(use.Pending))
}

// TestPendingQuotaMoves checks that max_pending is exact after the shards have changed their leaders, and after slots
// have moved, that of the quota's owner among them.
func TestPendingQuotaMoves(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := clustertest.New(t, 3, func(_ int, cfg *cluster.Config) { cfg.Shards = 3 })
		limit := 60
		putNamespace(t, c.Node(0), "town", quota.Limits{MaxPending: 30})
		refill(t, c, "town", "t", 30)
		raise := func(prefix string) {
			t.Helper()
			putNamespace(t, c.Node(0), "town", quota.Limits{MaxPending: int64(limit)})
			mustUse(t, c, "town", func(u task.NamespaceUse) bool { return u.Pending == uint64(limit-30) })
			refill(t, c, "town", prefix, 30)
			limit += 30
		}
		for shard := range uint32(3) {
			c.Until("the leader has changed", func() error { return c.Node(0).Transfer(t.Context(), shard+1, c.Node(1).ID()) })
		}
		raise("after")
		owner := quotaOwner(t, c.Node(0), "town")
		for range 3 { // one of the splits takes the slot of the owner away
			shards := len(c.Node(0).State().Shards)
			c.Until("the split has begun", func() error { return splitAnywhere(c, quotaOwner(t, c.Node(0), "town"), shards+1) })
			c.Until("the slots have moved", func() error { return haveSplit(c, shards+1) })
			raise(fmt.Sprint("split", shards))
		}
		if quotaOwner(t, c.Node(0), "town") == owner {
			t.Error("the owner of the quota has not moved")
		}
	})
}

// TestPendingQuotaSplits checks that a full namespace stays full after shards have given tasks away.
func TestPendingQuotaSplits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const limit = 60
		c := clustertest.New(t, 3, func(_ int, cfg *cluster.Config) { cfg.Shards = 3 })
		putNamespace(t, c.Node(0), "town", quota.Limits{MaxPending: limit})
		refill(t, c, "town", "t", limit)
		for shard := range uint32(3) {
			shards := len(c.Node(0).State().Shards)
			c.Until("the split has begun", func() error { return splitAnywhere(c, shard+1, shards+1) })
			c.Until("the slots have moved", func() error { return haveSplit(c, shards+1) })
		}
		if made := fillQuota(t, c, "town", "more", 90, quota.MaxPending); made > 0 {
			t.Errorf("%d tasks beyond the limit", made)
		}
		mustUse(t, c, "town", func(u task.NamespaceUse) bool { return u.Pending == limit })
	})
}

// quotaOwner returns the shard that owns the quotas of a namespace.
func quotaOwner(t *testing.T, n *cluster.Node, namespace string) uint32 {
	t.Helper()
	slot := task.Slot(namespace, "quota/namespace")
	for _, r := range n.State().Slots {
		if r.First <= slot && slot < r.End {
			return r.Shard
		}
	}
	t.Fatal("no shard owns the slot")
	return 0
}

// consumersAt takes places for consumers at nodes side by side, and returns those that leave them.
func consumersAt(t *testing.T, nodes []*cluster.Node, namespace, key string, each int) (leaves []func()) {
	t.Helper()
	var mu sync.Mutex
	var all sync.WaitGroup
	for _, n := range nodes {
		for range each {
			all.Go(func() {
				leave, err := n.Quotas().Consumer(t.Context(), namespace, key)
				if err != nil {
					if !isOver(err, quota.MaxConsumers) {
						t.Errorf("%v", err)
					}
					return
				}
				mu.Lock()
				defer mu.Unlock()
				leaves = append(leaves, leave)
			})
		}
	}
	all.Wait()
	return leaves
}

// TestConsumerQuota checks that max_consumers holds over the nodes, those of a node that dies come back, and a limit
// counts consumers that were there before.
func TestConsumerQuota(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := clustertest.New(t, 3, func(_ int, cfg *cluster.Config) { cfg.Shards = 3 })
		putNamespace(t, c.Node(0), "town", quota.Limits{})
		early := consumersAt(t, c.Nodes()[:1], "town", "", 4)
		putNamespace(t, c.Node(0), "town", quota.Limits{MaxConsumers: 10})
		c.Until("all nodes know the limit", func() error { return knowLimits(c, "town", quota.Limits{MaxConsumers: 10}) })
		leaves := consumersAt(t, c.Nodes(), "town", "", 9)
		if len(early) != 4 || len(leaves) != 6 {
			t.Fatalf("%d consumers before the limit, %d after, of 10", len(early), len(leaves))
		}
		for _, n := range c.Nodes() {
			if use, err := n.Quotas().Use(t.Context(), "town"); err != nil || use.Consumers != 10 {
				t.Errorf("%+v, %v", use, err)
			}
		}
		for _, leave := range leaves[:3] {
			leave()
		}
		again := consumersAt(t, c.Nodes(), "town", "", 5)
		assert.Equal(t, len(again), 3, "consumers")
		c.Crash(0) // with 4 consumers at least
		alive := c.Nodes()
		c.Until("the places of the node are free", func() error {
			for _, n := range alive {
				_, _ = n.Quotas().Consumer(t.Context(), "town", "") // refused while the node counts; stays otherwise
			}
			use, err := alive[0].Quotas().Use(t.Context(), "town")
			if err != nil || use.Consumers != 10 {
				return fmt.Errorf("%+v, %w", use, err)
			}
			return nil
		})
		more := consumersAt(t, alive, "town", "", 5)
		assert.Equal(t, len(more), 0, "consumers beyond the limit")
	})
}

func knowLimits(c *clustertest.Cluster, namespace string, want quota.Limits) error {
	for i, n := range c.Nodes() {
		if known, _ := n.Tenants().Namespace(namespace); quota.Limits(known.Quotas) != want {
			return fmt.Errorf("node %d knows %+v", i, known.Quotas)
		}
	}
	return nil
}

// TestQueueQuota checks that max_queues counts each queue once, whether a task or a policy makes it, at all nodes.
func TestQueueQuota(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := clustertest.New(t, 3, func(_ int, cfg *cluster.Config) { cfg.Shards = 3 })
		n := c.Node(0)
		putNamespace(t, n, "town", quota.Limits{MaxQueues: 5})
		c.Until("all nodes know the limit", func() error { return knowLimits(c, "town", quota.Limits{MaxQueues: 5}) })
		var made sync.Map
		var admitted atomic.Int64
		var all sync.WaitGroup
		for i := range 30 {
			all.Go(func() {
				queue, at := fmt.Sprint("q", i%10), c.Node(i%3)
				if err := at.Quotas().Queue(t.Context(), "town", queue); err != nil {
					if !isOver(err, quota.MaxQueues) {
						t.Errorf("%v", err)
					}
					return
				}
				mustDo(t, at, scheduleIn("town", fmt.Sprint("t", i), queue, time.Hour))
				if _, again := made.LoadOrStore(queue, true); !again {
					admitted.Add(1)
				}
			})
		}
		all.Wait()
		assert.MustEqual(t, admitted.Load(), 5, "queues")
		mustUse(t, c, "town", func(u task.NamespaceUse) bool { return u.Queues == 5 })
		for i := range 10 {
			queue := fmt.Sprint("q", i)
			_, exists := made.Load(queue)
			if err := c.Node(i%3).Quotas().Policy(t.Context(), "town", queue); (err == nil) != exists {
				t.Errorf("the queue %s, which exists: %v: %v", queue, exists, err)
			}
		}
		putNamespace(t, n, "town", quota.Limits{MaxQueues: 6})
		c.Until("all nodes know the limit", func() error { return knowLimits(c, "town", quota.Limits{MaxQueues: 6}) })
		assert.NoError(t, n.Quotas().Policy(t.Context(), "town", "by-policy"))
		_, err := n.Policies().PutQueue(t.Context(), &fsmpb.QueuePolicy{Namespace: "town", Queue: "by-policy"})
		assert.NoError(t, err)
		if err := c.Node(1).Quotas().Queue(t.Context(), "town", "seventh"); !isOver(err, quota.MaxQueues) {
			t.Errorf("%v", err)
		}
		_, err = n.Policies().DeleteQueue(t.Context(), "town", "by-policy")
		assert.NoError(t, err)
		c.Until("the place of the deleted queue is free", func() error {
			return c.Node(2).Quotas().Queue(t.Context(), "town", "seventh")
		})
	})
}
