package cluster_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/belfryhq/belfry/cluster/internal/clustertest"
	"github.com/belfryhq/belfry/fsm/task"
)

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
