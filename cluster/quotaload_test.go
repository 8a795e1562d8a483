package cluster_test

import (
	"context"
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
	"github.com/belfryhq/belfry/quota"
)

// pour makes calls at all nodes, more than the limit allows, until stop is called. It counts those that are admitted.
func pour(t *testing.T, nodes []*cluster.Node, namespace string) (admitted *atomic.Int64, stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	admitted = new(atomic.Int64)
	var callers sync.WaitGroup
	for _, n := range nodes {
		for range 2 {
			callers.Go(func() {
				pace := time.NewTicker(time.Millisecond)
				defer pace.Stop()
				for ctx.Err() == nil {
					if n.Quotas().Call(ctx, namespace, "") == nil {
						admitted.Add(1)
					}
					<-pace.C
				}
			})
		}
	}
	return admitted, func() {
		cancel()
		callers.Wait()
	}
}

// TestRateUnderLoad checks calls_per_second to 5 % while callers at all three nodes want five times as much, and while
// the node that leads the quota's shard dies. The rate before the kill is exact. Until the quota has another owner, the
// other nodes go on at the rates that they had.
func TestRateUnderLoad(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const limit = 400
		c := clustertest.New(t, 3, func(_ int, cfg *cluster.Config) { cfg.Shards = 3 })
		want := quota.Limits{CallsPerSecond: limit}
		putNamespace(t, c.Node(0), "town", want)
		c.Until("all nodes know the limit", func() error { return knowLimits(c, "town", want) })
		victim := ownerNode(t, c, "town")
		nodes := c.Nodes()
		left := append(append([]*cluster.Node{}, nodes[:victim]...), nodes[victim+1:]...)

		dying, stopDying := pour(t, nodes[victim:victim+1], "town")
		others, stopOthers := pour(t, left, "town")
		defer stopOthers()
		measure := func(what string, long time.Duration, counts ...*atomic.Int64) {
			sum := func() (n int64) {
				for _, c := range counts {
					n += c.Load()
				}
				return n
			}
			begin, before := time.Now(), sum()
			<-time.After(long)
			if rate := float64(sum()-before) / time.Since(begin).Seconds(); rate < 0.95*limit || rate > 1.05*limit {
				t.Errorf("%s: %.1f calls a second of %d", what, rate, limit)
			}
		}
		<-time.After(1500 * time.Millisecond) // the tokens of the first second
		measure("three nodes", 3*time.Second, dying, others)
		c.Until("the quota's owner counts the rate", func() error {
			use, err := left[0].Quotas().Use(t.Context(), "town")
			if err == nil && (use.CallsPerSecond < 0.9*limit || use.CallsPerSecond > 1.1*limit) {
				err = fmt.Errorf("%+v", use)
			}
			return err
		})
		stopDying()
		c.Crash(victim)
		measure("as the owner dies", 8*time.Second, others) // with the debts of the time without an owner
		c.Until("the quota has another owner", func() error {
			_, err := left[0].Quotas().Use(t.Context(), "town")
			return err
		})
		measure("two nodes", 3*time.Second, others)
	})
}

// ownerNode returns the number of the node that leads the shard that owns the quotas of a namespace.
func ownerNode(t *testing.T, c *clustertest.Cluster, namespace string) (node int) {
	t.Helper()
	shard := quotaOwner(t, c.Node(0), namespace)
	c.Until("the shard has a leader", func() error {
		for _, s := range c.Node(0).View(t.Context()).Shards {
			if s.ID == shard {
				if node = c.Index(s.Leader); node >= 0 {
					return nil
				}
			}
		}
		return fmt.Errorf("shard %d has no leader", shard)
	})
	return node
}

// TestPendingQuotaUnderKill fills max_pending through all three nodes while the node dies that leads the quota's shard.
// No moment shows more tasks than the limit, and the limit is reached in the end.
func TestPendingQuotaUnderKill(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const limit = 3000
		c := clustertest.New(t, 3, func(_ int, cfg *cluster.Config) { cfg.Shards = 6 })
		want := quota.Limits{MaxPending: limit}
		putNamespace(t, c.Node(0), "town", want)
		c.Until("all nodes know the limit", func() error { return knowLimits(c, "town", want) })
		victim := ownerNode(t, c, "town")
		nodes := c.Nodes()
		ctx, stop := context.WithCancel(t.Context())
		var made atomic.Int64
		var writers sync.WaitGroup
		half := make(chan struct{})
		var once sync.Once
		for at, n := range nodes {
			for w := range 2 {
				writers.Go(func() {
					pace := time.NewTicker(5 * time.Millisecond)
					defer pace.Stop()
					for i := 0; ctx.Err() == nil; i++ {
						<-pace.C
						var cmds []*fsmpb.Command
						for j := range 10 {
							cmds = append(cmds, scheduleIn("town", fmt.Sprintf("t-%d-%d-%d-%d", at, w, i, j), "q", time.Hour))
						}
						for _, r := range n.Do(ctx, cmds) {
							if r.Err == nil && made.Add(1) >= limit/2 {
								once.Do(func() { close(half) })
							}
						}
					}
				})
			}
		}
		<-half
		c.Crash(victim)
		left := c.Nodes()
		c.Until("the limit is reached", func() error {
			use, err := left[0].NamespaceUse(t.Context(), "town")
			if err == nil && use.Pending > limit {
				t.Errorf("%d tasks of %d", use.Pending, limit)
			}
			if err != nil || use.Pending < limit {
				return fmt.Errorf("%+v, %w", use, err)
			}
			return nil
		})
		stop()
		writers.Wait()
		mustUse(t, c, "town", func(u task.NamespaceUse) bool { return u.Pending == limit })
	})
}
