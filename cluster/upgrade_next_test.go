//go:build next

package cluster_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/belfryhq/belfry/cluster"
	"github.com/belfryhq/belfry/cluster/internal/clustertest"
	"github.com/belfryhq/belfry/fsm"
)

// TestHeldVersion checks that one node holds the command version of the cluster, that the version rises when the node
// starts without the hold, and that a version in force cannot be held back.
func TestHeldVersion(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		holds := []bool{true, true, true}
		c := clustertest.New(t, 3, func(i int, cfg *cluster.Config) {
			if holds[i] {
				cfg.HoldVersion = fsm.FirstVersion
			}
		})
		c.WaitReady()
		restart := func(i int, hold bool) {
			holds[i] = hold
			c.Stop(i)
			c.Start(i)
			c.WaitReady()
		}
		inForce := func(want uint32) {
			t.Helper()
			c.Until(fmt.Sprintf("version %d is in force", want), func() error {
				for _, i := range []int{0, 1, 2} {
					if got := c.Node(i).View(t.Context()).CommandVersion; got != want {
						return fmt.Errorf("node %d sees %d", i, got)
					}
				}
				return nil
			})
		}
		held := func() uint32 {
			view := c.Node(0).View(context.Background())
			for _, node := range view.Nodes {
				if node.ID == c.Node(1).ID() {
					return node.CommandVersion
				}
			}
			return 0
		}
		restart(0, false)
		restart(2, false)
		inForce(fsm.FirstVersion)
		if got := held(); got != fsm.FirstVersion {
			t.Errorf("the node that holds shows version %d", got)
		}
		restart(1, false)
		inForce(fsm.CommandVersion)
		restart(1, true)
		inForce(fsm.CommandVersion)
		if got := held(); got != fsm.CommandVersion {
			t.Errorf("a node holds version %d back", got)
		}
	})
}
