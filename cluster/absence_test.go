package cluster_test

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/belfryhq/belfry/cluster"
	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/cluster/internal/clustertest"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/internal/assert"
)

// A new node ends in the middle of its first copies and never comes back. The shards go on without it.
func TestNewNodeNeverComesBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := clustertest.New(t, 3, hasty)
		scheduleMany(t, c.Node(0), "kept", 60)
		joiner := c.Add()
		c.Start(joiner)
		c.Until("a copy is placed", func() error {
			if v := c.Node(0).View(t.Context()); slices.ContainsFunc(v.Shards, moments["a copy is placed"]) {
				return nil
			}
			return errors.New("not yet")
		})
		c.Crash(joiner)
		awaitReplicas(c, 3, 3)
		mustFind(t, c, 1, "kept", 60)
	})
}

// A node is drained while it is down, and comes back without replicas. It is resumed, drained again, resumed in the
// middle of that, and ends with its share.
func TestNodeIsDrainedWhileItIsDown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := clustertest.New(t, 3, hastyForGood)
		c.Start(c.Add())
		awaitReplicas(c, 3, 4)
		id := c.Node(3).ID()
		c.Stop(3)
		drain := &clusterpb.Operation{Kind: clusterpb.OperationKind_OPERATION_KIND_DRAIN, Node: id}
		resume := &clusterpb.Operation{Kind: clusterpb.OperationKind_OPERATION_KIND_RESUME, Node: id}
		finish(t, c, c.Node(0), drain)
		c.Start(3)
		c.WaitReady()
		awaitReplicas(c, 3, 3)
		finish(t, c, c.Node(0), resume)
		awaitReplicas(c, 3, 4)
		began, err := c.Node(0).Operations().Begin(t.Context(), drain, false)
		assert.NoError(t, err)
		finish(t, c, c.Node(0), resume)
		op, _ := c.Node(0).Operations().Operation(began.Operation.Id)
		assert.Equal(t, op.GetState(), clusterpb.OperationState_OPERATION_STATE_STOPPED, "the drain is %v", op)
		awaitReplicas(c, 3, 4)
	})
}

// All nodes end in the middle of moves, and come back at other addresses.
func TestAllAddressesChangeDuringMoves(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var addrs []string // empty: as before
		c := clustertest.New(t, 3, func(i int, cfg *cluster.Config) {
			hastyForGood(i, cfg)
			if len(addrs) > 0 {
				cfg.BindAddr, cfg.Join = addrs[i], slices.Delete(slices.Clone(addrs), i, i+1)
			}
		})
		scheduleMany(t, c.Node(0), "kept", 60)
		c.Start(c.Add())
		c.Until("shards move", func() error {
			if v := c.Node(0).View(t.Context()); slices.ContainsFunc(v.Shards, moments["a copy is placed"]) {
				return nil
			}
			return errors.New("not yet")
		})
		before := c.Node(1).PeerAddr()
		for i := range 4 {
			c.Crash(i)
		}
		for range 4 {
			addrs = append(addrs, c.FreeAddr())
		}
		for i := range 4 {
			c.Start(i)
		}
		c.WaitReady()
		awaitReplicas(c, 3, 4)
		c.Until("the new addresses are registered", func() error {
			for _, n := range c.Node(0).View(t.Context()).Nodes {
				if !slices.Contains(addrs, n.PeerAddr) || n.PeerAddr == before {
					return fmt.Errorf("node %s is at %s", n.Name, n.PeerAddr)
				}
			}
			return nil
		})
		mustFind(t, c, 3, "kept", 60)
	})
}

// hasty makes nodes take replicas soon after their start, and lose them soon after their end.
func hasty(_ int, cfg *cluster.Config) {
	cfg.Calm, cfg.ReplaceAfter, cfg.Shards = 300*time.Millisecond, time.Second, 4
}

// finish begins an operation through a node, and waits until the node knows that it is done.
func finish(t *testing.T, c *clustertest.Cluster, n *cluster.Node, op *clusterpb.Operation) {
	t.Helper()
	began, err := n.Operations().Begin(t.Context(), op, false)
	assert.NoError(t, err, "%v", op)
	c.Until(fmt.Sprint(op.Kind), func() error {
		now, left := n.Operations().Operation(began.Operation.Id)
		if now.GetState() != clusterpb.OperationState_OPERATION_STATE_DONE {
			return fmt.Errorf("%v, %d of %d replicas left", now, left, now.GetTotal())
		}
		return nil
	})
}

// mustBeRemoved waits until a node says that it was removed.
func mustBeRemoved(t *testing.T, c *clustertest.Cluster, i int) {
	t.Helper()
	mustSay(c, c.Node(i), "was removed from the cluster", "With an empty data folder it joins as a new node")
	assert.Error(t, c.Node(i).Ready(), "node %d is ready", i)
}

// A removed node learns of its removal while it runs, and again after a restart. With an empty folder it joins as a new
// node.
func TestRemovedNodeStandsAside(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := clustertest.New(t, 3, hasty)
		scheduleMany(t, c.Node(0), "stays", 60)
		c.Start(c.Add())
		awaitReplicas(c, 3, 4)
		old := c.Node(3).ID()
		finish(t, c, c.Node(0), remove(c, 3))
		mustBeRemoved(t, c, 3)
		c.Stop(3)
		c.Start(3)
		mustBeRemoved(t, c, 3)
		c.Stop(3)
		assert.NoError(t, os.RemoveAll(c.DataDir(3)))
		c.Start(3)
		c.WaitReady()
		awaitReplicas(c, 3, 4)
		if c.Node(3).ID() == old {
			t.Error("the new node has the id of the old one")
		}
		mustFind(t, c, 3, "stays", 60)
	})
}

// moveOn takes a cluster from three nodes to three others. The first node is away from the beginning on.
func moveOn(t *testing.T, c *clustertest.Cluster) {
	t.Helper()
	for range 3 {
		c.Start(c.Add())
	}
	awaitReplicas(c, 3, 6)
	c.Stop(0)
	awaitReplicas(c, 3, 5)
	for _, i := range []int{1, 2} {
		finish(t, c, c.Node(3), remove(c, i))
		c.Stop(i)
	}
	awaitReplicas(c, 3, 3)
}

// A node comes back with an old disk. Its shards have moved away, and no voter of its folder is in the cluster any
// more. The node finds the present nodes, and becomes one of them.
func TestNodeReturnsAfterAllHasMoved(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := clustertest.New(t, 3, hasty)
		scheduleMany(t, c.Node(0), "before", 60)
		moveOn(t, c)
		scheduleMany(t, c.Node(3), "after", 60)
		c.Start(0)
		c.WaitReady()
		awaitReplicas(c, 3, 4)
		for _, prefix := range []string{"before", "after"} {
			mustFind(t, c, 0, prefix, 60)
		}
	})
}

// All nodes of an old cluster come back after others have taken their place. They were a majority once, and form no
// cluster of their own.
func TestOldMajorityFormsNoCluster(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := clustertest.New(t, 3, hasty)
		gone := &clusterpb.Operation{Kind: clusterpb.OperationKind_OPERATION_KIND_REPLACE, Node: c.Node(0).ID()}
		moveOn(t, c)
		finish(t, c, c.Node(3), gone)
		for i := range 3 {
			c.Start(i)
		}
		for i := range 3 {
			mustBeRemoved(t, c, i)
		}
		scheduleMany(t, c.Node(3), "after", 60)
	})
}

// A node without a majority is soon not ready, because it would take no call, and refuses calls soon.
func TestNotReadyWithoutAMajority(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := clustertest.New(t, 3, nil)
		awaitReplicas(c, 3, 3)
		c.Crash(1)
		c.Crash(2)
		began := time.Now()
		c.Until("the node is not ready", func() error {
			if c.Node(0).Ready() == nil {
				return errors.New("it is")
			}
			return nil
		})
		if took := time.Since(began); took > 8*time.Second {
			t.Errorf("it is not ready after %v", took)
		}
		began = time.Now()
		err := do(c.Node(0), schedule("refused", time.Hour))
		if took := time.Since(began); !errors.Is(err, task.ErrNotProposed) || took > 4*time.Second {
			t.Errorf("scheduled after %v: %v", took, err)
		}
		c.Start(1)
		c.Start(2)
		c.WaitReady()
	})
}
