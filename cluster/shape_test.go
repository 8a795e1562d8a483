package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/belfryhq/belfry/cluster"
	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/cluster/internal/clustertest"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/internal/assert"
)

// quick makes nodes take replicas soon after their start.
func quick(i int, cfg *cluster.Config) {
	cfg.Calm = 300 * time.Millisecond
	if i > 0 {
		cfg.BootstrapExpect = 0
	}
}

// TestClusterOfOneGrowsAndShrinks takes a cluster from one node to three, five and back to three, without a restart. No
// task is lost on the way.
func TestClusterOfOneGrowsAndShrinks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := clustertest.New(t, 1, quick)
		scheduleMany(t, c.Node(0), "one", 200)
		for range 2 {
			c.Start(c.Add())
		}
		awaitReplicas(c, 3, 3)
		scheduleMany(t, c.Node(1), "three", 200)
		for range 2 {
			c.Start(c.Add())
		}
		awaitReplicas(c, 3, 5)
		operate(t, c, &clusterpb.Operation{Kind: clusterpb.OperationKind_OPERATION_KIND_REPLICATION, Replication: 5})
		awaitReplicas(c, 5, 5)
		scheduleMany(t, c.Node(4), "five", 200)
		mustRefuse(t, c, remove(c, 0), "5 replicas")
		operate(t, c, &clusterpb.Operation{Kind: clusterpb.OperationKind_OPERATION_KIND_REPLICATION, Replication: 3})
		awaitReplicas(c, 3, 5)
		operate(t, c, remove(c, 0))
		operate(t, c, remove(c, 1))
		awaitReplicas(c, 3, 3)
		c.Stop(0)
		c.Stop(1)
		for _, prefix := range []string{"one", "three", "five"} {
			mustFind(t, c, 3, prefix, 200)
		}
	})
}

func remove(c *clustertest.Cluster, i int) *clusterpb.Operation {
	return &clusterpb.Operation{Kind: clusterpb.OperationKind_OPERATION_KIND_REMOVE, Node: c.Node(i).ID()}
}

// operate begins an operation through the last node, and waits until it is done.
func operate(t *testing.T, c *clustertest.Cluster, op *clusterpb.Operation) {
	t.Helper()
	finish(t, c, lastNode(c), op)
}

func mustRefuse(t *testing.T, c *clustertest.Cluster, op *clusterpb.Operation, reason string) {
	t.Helper()
	var impossible *task.ImpossibleError
	_, err := lastNode(c).Operations().Begin(t.Context(), op, false)
	if !errors.As(err, &impossible) || !strings.Contains(impossible.Reason, reason) {
		t.Errorf("%v: %v, want a refusal: %s", op, err, reason)
	}
}

func lastNode(c *clustertest.Cluster) *cluster.Node {
	running := c.Nodes()
	return running[len(running)-1]
}

// awaitReplicas waits until each shard has this number of replicas that answer, and this number of nodes holds them.
func awaitReplicas(c *clustertest.Cluster, replicas, nodes int) {
	c.Until(fmt.Sprintf("%d replicas on %d nodes", replicas, nodes), func() error {
		v := lastNode(c).View(context.Background())
		held := make(map[string]bool)
		for _, s := range v.Shards {
			for _, r := range s.Replicas {
				if r.State != "leader" && r.State != "follower" {
					return fmt.Errorf("shard %d: %v", s.ID, s.Replicas)
				}
				held[r.Node] = true
			}
			if len(s.Replicas) != replicas || len(s.Target) > 0 {
				return fmt.Errorf("shard %d: %v, on its way to %v: %s", s.ID, s.Replicas, s.Target, s.Waits)
			}
		}
		if len(held) != nodes {
			return fmt.Errorf("replicas on %d nodes", len(held))
		}
		return nil
	})
}

// TestNodeRests lets a node lead nothing. The node keeps its replicas, and leads again after it is resumed. All nodes
// learn of the new leaders, also a node that knew the last one from a replica that has moved away.
func TestNodeRests(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := clustertest.New(t, 3, func(_ int, cfg *cluster.Config) { cfg.Calm = 300 * time.Millisecond })
		c.Start(c.Add())
		awaitReplicas(c, 3, 4)
		node := c.Node(0).ID()
		rest := &clusterpb.Operation{Kind: clusterpb.OperationKind_OPERATION_KIND_REST, Node: node}
		operate(t, c, rest)
		if replicas, leads := held(c, node); leads != 0 || replicas == 0 {
			t.Errorf("the node has %d replicas and leads %d", replicas, leads)
		}
		c.Until("all nodes believe in the same map", func() error { return sameMap(c, 4) })
		operate(t, c, &clusterpb.Operation{Kind: clusterpb.OperationKind_OPERATION_KIND_RESUME, Node: node})
		c.Until("the node leads again", func() error {
			if _, leads := held(c, node); leads == 0 {
				return errors.New("it leads nothing")
			}
			return nil
		})
	})
}

func held(c *clustertest.Cluster, node string) (replicas, leads int) {
	for _, n := range lastNode(c).View(context.Background()).Nodes {
		if n.ID == node {
			return n.Replicas, n.Leads
		}
	}
	return 0, 0
}

// TestOperationsAreRepeatable begins one operation three times: by its id, and as an equal one under way. It cannot end
// meanwhile, since no node is up for long enough to take the replicas.
func TestOperationsAreRepeatable(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := clustertest.New(t, 1, func(i int, cfg *cluster.Config) {
			cfg.Name = []string{"n1", "n2"}[min(i, 1)]
			quick(i, cfg)
			cfg.Calm = time.Hour
		})
		for range 2 {
			c.Start(c.Add())
		}
		c.WaitReady()
		n := c.Node(0)
		c.Until("the others may take replicas", func() error {
			op := &clusterpb.Operation{Kind: clusterpb.OperationKind_OPERATION_KIND_DRAIN, Node: n.ID()}
			_, err := n.Operations().Begin(t.Context(), op, true)
			return err
		})
		begin := func(id string) string {
			op := &clusterpb.Operation{Id: id, Kind: clusterpb.OperationKind_OPERATION_KIND_DRAIN, Node: n.ID()}
			began, err := n.Operations().Begin(t.Context(), op, false)
			assert.NoError(t, err)
			return began.Operation.Id
		}
		for _, id := range []string{"op-1", "op-1", "op-2", ""} {
			assert.Equal(t, begin(id), "op-1", "a request with the id %q got the operation", id)
		}
		if id, err := n.Operations().FindNode("N1"); err != nil || id != n.ID() {
			t.Errorf("n1 is %q, %v", id, err)
		}
		var impossible *task.ImpossibleError
		if _, err := n.Operations().FindNode("n2"); !errors.As(err, &impossible) || !strings.Contains(impossible.Reason, c.Node(2).ID()) {
			t.Errorf("n2, which two nodes are called: %v", err)
		}
		_, err := n.Operations().FindNode("n3")
		assert.ErrorIs(t, err, task.ErrNoNode, "n3")
	})
}
