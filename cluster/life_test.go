package cluster_test

import (
	"fmt"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/belfryhq/belfry/cluster"
	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/cluster/internal/clustertest"
	"github.com/belfryhq/belfry/internal/assert"
)

// hasty makes nodes take replicas soon after their start, and lose them soon after their end.
func hasty(_ int, cfg *cluster.Config) {
	cfg.Calm, cfg.ReplaceAfter, cfg.Shards = 300*time.Millisecond, time.Second, 4
}

// finish begins an operation through a node, and waits until the node knows that it is done.
func finish(t *testing.T, c *clustertest.Cluster, at int, op *clusterpb.Operation) {
	t.Helper()
	n := c.Node(at)
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
		finish(t, c, 0, remove(c, 3))
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
		finish(t, c, 3, remove(c, i))
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
		finish(t, c, 3, gone)
		for i := range 3 {
			c.Start(i)
		}
		for i := range 3 {
			mustBeRemoved(t, c, i)
		}
		scheduleMany(t, c.Node(3), "after", 60)
	})
}
