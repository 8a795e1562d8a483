package cluster_test

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/belfryhq/belfry/cluster"
	"github.com/belfryhq/belfry/cluster/internal/clustertest"
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/quota"
)

func putNamespace(t *testing.T, n *cluster.Node, name string, limits quota.Limits) {
	t.Helper()
	if _, _, err := n.Tenants().PutNamespace(t.Context(), name, limits); err != nil {
		t.Fatal(err)
	}
}

// fillQuota schedules n tasks in a namespace through all nodes, ten at a time, and returns the number of tasks made.
// Every refusal must name the quota. A call that was not carried out, because a part of a busy cluster did not answer
// in time, is made again.
func fillQuota(t *testing.T, c *clustertest.Cluster, namespace, prefix string, n int, want quota.Quota) int {
	t.Helper()
	var made atomic.Int64
	var callers sync.WaitGroup
	const each = 10
	for from := 0; from < n; from += each {
		callers.Go(func() {
			var cmds []*fsmpb.Command
			for i := range each {
				cmds = append(cmds, scheduleIn(namespace, fmt.Sprint(prefix, from+i), "q", time.Hour))
			}
			for n := int64(0); len(cmds) > 0; made.Add(n) {
				n, cmds = fillOnce(t, c.Node(from/each%3), cmds, want)
			}
		})
	}
	callers.Wait()
	return int(made.Load())
}

// fillOnce executes commands. It returns the number of tasks made, and the commands that were not carried out.
func fillOnce(
	t *testing.T, n *cluster.Node, cmds []*fsmpb.Command, want quota.Quota,
) (made int64, open []*fsmpb.Command) {
	for i, r := range n.Do(t.Context(), cmds) {
		var full *quota.Exceeded
		switch {
		case r.Err == nil:
			made++
		case !errors.As(r.Err, &full) && errors.Is(r.Err, task.ErrNotProposed) && t.Context().Err() == nil:
			open = append(open, cmds[i])
		case full == nil || full.Quota != want || full.RetryAfter <= 0 || full.Limit == 0:
			t.Errorf("%v", r.Err)
		}
	}
	return made, open
}

// TestQuotas fills the quotas of namespaces through all nodes of a cluster with several shards.
func TestQuotas(t *testing.T) {
	c := clustertest.New(t, 3, func(_ int, cfg *cluster.Config) { cfg.Shards = 3 })
	c.WaitReady()
	n := c.Node(0)
	t.Run("max_pending", func(t *testing.T) {
		const limit = 230
		putNamespace(t, n, "shop", quota.Limits{MaxPending: limit})
		if made := fillQuota(t, c, "shop", "t", 400, quota.MaxPending); made != limit {
			t.Errorf("%d tasks of %d", made, limit)
		}
		use, err := c.Node(1).NamespaceUse(t.Context(), "shop")
		if err != nil || use.Pending != limit {
			t.Errorf("%+v, %v", use, err)
		}
		if made := fillQuota(t, c, "shop", "t", 400, quota.MaxPending); made != limit {
			t.Errorf("%d tasks were replaced", made)
		}
		putNamespace(t, c.Node(2), "shop", quota.Limits{MaxPending: limit + 70})
		if made := fillQuota(t, c, "shop", "more", 100, quota.MaxPending); made != 70 {
			t.Errorf("%d tasks under a limit that is higher by 70", made)
		}
		if made := fillQuota(t, c, "", "free", 100, quota.MaxPending); made != 100 {
			t.Errorf("%d tasks of a namespace without a limit", made)
		}
	})
	t.Run("max_bytes", func(t *testing.T) {
		const limit = 50_000
		putNamespace(t, n, "town", quota.Limits{MaxBytes: limit})
		made := fillQuota(t, c, "town", "t", 1000, quota.MaxBytes)
		for i := range 10 { // calls under way count with more than the size of their tasks
			made += fillQuota(t, c, "town", fmt.Sprint("more", i), 10, quota.MaxBytes)
		}
		use, err := n.NamespaceUse(t.Context(), "town")
		if err != nil || made == 0 || use.Bytes > limit || use.Bytes < limit*95/100 {
			t.Errorf("%d tasks, %+v, %v", made, use, err)
		}
	})
	t.Run("calls_per_second", func(t *testing.T) {
		putNamespace(t, n, "port", quota.Limits{CallsPerSecond: 200})
		begin, admitted := time.Now(), 0
		for i := 0; time.Since(begin) < 3*time.Second; i++ {
			if c.Node(i%3).Quotas().Call(t.Context(), "port", "") == nil {
				admitted++
			}
		}
		// The bucket has up to one second's tokens at first.
		if most := 200*time.Since(begin).Seconds() + 200; float64(admitted) > 1.05*most || admitted < 570 {
			t.Errorf("%d calls in %v", admitted, time.Since(begin))
		}
	})
}
