package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/belfryhq/belfry/cluster"
	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/cluster/control"
	"github.com/belfryhq/belfry/cluster/internal/clustertest"
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
		if n, _ := found(t, c.Node(3), prefix, 200); n != 200 {
			t.Errorf("%d of 200 tasks %s… are left", n, prefix)
		}
	}
}

func remove(c *clustertest.Cluster, i int) *clusterpb.Operation {
	return &clusterpb.Operation{Kind: clusterpb.OperationKind_OPERATION_KIND_REMOVE, Node: c.Node(i).ID()}
}

// operate begins an operation through the last node, and waits until it is done.
func operate(t *testing.T, c *clustertest.Cluster, op *clusterpb.Operation) {
	t.Helper()
	n := lastNode(c)
	began, err := n.Begin(t.Context(), op, false)
	if err != nil {
		t.Fatalf("%v: %v", op, err)
	}
	c.Until(fmt.Sprint(op.Kind), func() error {
		now, left := n.Operation(began.Operation.Id)
		if now.GetState() != clusterpb.OperationState_OPERATION_STATE_DONE {
			return fmt.Errorf("%v, %d of %d replicas left", now, left, now.GetTotal())
		}
		return nil
	})
}

func mustRefuse(t *testing.T, c *clustertest.Cluster, op *clusterpb.Operation, reason string) {
	t.Helper()
	var impossible *control.ImpossibleError
	_, err := lastNode(c).Begin(t.Context(), op, false)
	if !errors.As(err, &impossible) || !strings.Contains(impossible.Reason, reason) {
		t.Errorf("%v: %v, want a refusal: %s", op, err, reason)
	}
}

func lastNode(c *clustertest.Cluster) *cluster.Node {
	running := c.Nodes()
	return running[len(running)-1]
}

// awaitReplicas waits until every shard has so many replicas that answer, which are spread over so many nodes.
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
				return fmt.Errorf("shard %d: %v, on its way to %v", s.ID, s.Replicas, s.Target)
			}
		}
		if len(held) != nodes {
			return fmt.Errorf("replicas on %d nodes", len(held))
		}
		return nil
	})
}
