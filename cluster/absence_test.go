package cluster_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/belfryhq/belfry/cluster"
	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/cluster/internal/clustertest"
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
		finish(t, c, 0, drain)
		c.Start(3)
		c.WaitReady()
		awaitReplicas(c, 3, 3)
		finish(t, c, 0, resume)
		awaitReplicas(c, 3, 4)
		began, err := c.Node(0).Operations().Begin(t.Context(), drain, false)
		assert.NoError(t, err)
		finish(t, c, 0, resume)
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
