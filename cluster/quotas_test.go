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
	"github.com/belfryhq/belfry/internal/assert"
	"github.com/belfryhq/belfry/quota"
)

func putNamespace(t *testing.T, n *cluster.Node, name string, limits quota.Limits) {
	t.Helper()
	_, _, err := n.Tenants().PutNamespace(t.Context(), name, limits)
	assert.NoError(t, err)
}

// fillQuota schedules n tasks in a namespace through all nodes, ten at a time, and returns the number of tasks made.
// Every refusal must name the quota.
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
			for _, r := range c.Node(from/each%3).Do(t.Context(), cmds) {
				var full *quota.Exceeded
				switch {
				case r.Err == nil:
					made.Add(1)
				case !errors.As(r.Err, &full) || full.Quota != want || full.RetryAfter <= 0 || full.Limit == 0:
					t.Errorf("%v", r.Err)
				}
			}
		})
	}
	callers.Wait()
	return int(made.Load())
}

// TestQuotas fills the quotas of namespaces through all nodes of a cluster with several shards.
func TestQuotas(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := clustertest.New(t, 3, func(_ int, cfg *cluster.Config) { cfg.Shards = 3 })
		testMaxPending(t, c)
		testMaxBytes(t, c)
		testCallsPerSecond(t, c)
	})
}

func testMaxPending(t *testing.T, c *clustertest.Cluster) {
	const limit = 230
	putNamespace(t, c.Node(0), "shop", quota.Limits{MaxPending: limit})
	refill(t, c, "shop", "t", limit)
	use, err := c.Node(1).NamespaceUse(t.Context(), "shop")
	if err != nil || use.Pending != limit {
		t.Errorf("%+v, %v", use, err)
	}
	var again []*fsmpb.Command
	for _, id := range listed(t, c.Node(1), "shop") {
		again = append(again, scheduleIn("shop", id, "q", 2*time.Hour))
	}
	mustDo(t, c.Node(1), again...)
	putNamespace(t, c.Node(2), "shop", quota.Limits{MaxPending: limit + 70})
	refill(t, c, "shop", "more", 70)
	assert.Equal(t, fillQuota(t, c, "", "free", 100, quota.MaxPending), 100, "tasks of a namespace without a limit")
}

func testMaxBytes(t *testing.T, c *clustertest.Cluster) {
	const limit = 50_000
	putNamespace(t, c.Node(0), "town", quota.Limits{MaxBytes: limit})
	made := fillQuota(t, c, "town", "t", 1000, quota.MaxBytes)
	for i := range 10 { // calls under way count with more than the size of their tasks
		made += fillQuota(t, c, "town", fmt.Sprint("more", i), 10, quota.MaxBytes)
	}
	use, err := c.Node(0).NamespaceUse(t.Context(), "town")
	if err != nil || made == 0 || use.Bytes > limit || use.Bytes < limit*95/100 {
		t.Errorf("%d tasks, %+v, %v", made, use, err)
	}
}

// A thousand calls a second at all nodes are admitted at a fifth of that rate.
func testCallsPerSecond(t *testing.T, c *clustertest.Cluster) {
	const limit, seconds = 200, 3
	putNamespace(t, c.Node(0), "port", quota.Limits{CallsPerSecond: limit})
	pace := time.NewTicker(time.Millisecond)
	defer pace.Stop()
	admitted := 0
	for i := range seconds * 1000 {
		<-pace.C
		if c.Node(i%3).Quotas().Call(t.Context(), "port", "") == nil {
			admitted++
		}
	}
	// The bucket is not empty at first.
	if admitted < limit*seconds || admitted > limit*seconds+limit/5 {
		t.Errorf("%d calls in %d s", admitted, seconds)
	}
}
