package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/belfryhq/belfry/cluster"
	"github.com/belfryhq/belfry/cluster/internal/clustertest"
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
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

// TestRepeatedCallsNeedNoRoom checks that a repeat of a call gets the first answer although its namespace is full, on
// a pending task and on one that is done.
func TestRepeatedCallsNeedNoRoom(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := clustertest.New(t, 3, func(_ int, cfg *cluster.Config) { cfg.Shards = 3 })
		n := c.Node(0)
		keyed := func(id string, call uint64) *fsmpb.Command {
			cmd := scheduleIn("town", id, "q", time.Hour)
			cmd.Key = &fsmpb.Key{Hash: call, Call: call}
			return cmd
		}
		mustRepeatFirst := func(cmd *fsmpb.Command) {
			t.Helper()
			for i, at := range c.Nodes() {
				if r := at.Do(t.Context(), []*fsmpb.Command{cmd})[0]; r.Err != nil || !r.Result.Repeated {
					t.Errorf("node %d: %v, %v", i, r.Result, r.Err)
				}
			}
		}
		limits := quota.Limits{MaxPending: 2, MaxBytes: 100_000}
		putNamespace(t, n, "town", limits)
		c.Until("all nodes know the limits", func() error { return knowLimits(c, "town", limits) })
		pending, done := keyed("pending", 1), keyed("done", 2)
		mustDo(t, n, pending, done, inTown("done", &fsmpb.Command{Op: &fsmpb.Command_Cancel{Cancel: &fsmpb.Cancel{}}}))
		patch := inTown("pending", &fsmpb.Command{Key: &fsmpb.Key{Hash: 3, Call: 3}, Op: &fsmpb.Command_Patch{
			Patch: &fsmpb.Patch{Clear: []string{"payload"}, Set: &fsmpb.Spec{Payload: make([]byte, 60_000)}},
		}})
		mustDo(t, n, patch)
		mustRepeatFirst(patch) // its bytes count once
		refill(t, c, "town", "more", 1)
		mustBeOver(t, n, quota.MaxPending, scheduleIn("town", "over", "q", time.Hour))
		mustRepeatFirst(pending)
		mustRepeatFirst(done)
		mustRepeatFirst(patch)
		mustBeOver(t, n, quota.MaxPending, keyed("done", 4))
	})
}

// hurried returns a context that is canceled after so many turns of other goroutines. In a bubble a call takes no time,
// and a timeout would not end in the middle of it.
func hurried(ctx context.Context, turns int) context.Context {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		for range turns {
			runtime.Gosched()
		}
		cancel()
	}()
	return ctx
}

// TestLeftCallsCount checks that max_pending is exact although the callers leave while their tasks are being made.
func TestLeftCallsCount(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const limit, callers, calls = 200, 16, 40
		c := clustertest.New(t, 3, func(_ int, cfg *cluster.Config) { cfg.Shards = 1 })
		limits := quota.Limits{MaxPending: limit}
		putNamespace(t, c.Node(0), "town", limits)
		c.Until("all nodes know the limits", func() error { return knowLimits(c, "town", limits) })
		var all sync.WaitGroup
		var left atomic.Int64
		for i := range callers {
			all.Go(func() {
				for j := range calls {
					cmd := scheduleIn("town", fmt.Sprint(i, "-", j), "q", time.Hour)
					r := c.Node(i%3).Do(hurried(t.Context(), rand.IntN(60)), []*fsmpb.Command{cmd})[0]
					if errors.Is(r.Err, context.Canceled) {
						left.Add(1)
					}
				}
			})
		}
		all.Wait()
		if left.Load() == 0 {
			t.Error("no caller has left")
		}
		tries := 0
		c.Until("the limit is reached", func() error {
			tries++
			fillQuota(t, c, "town", fmt.Sprint("rest-", tries, "-"), 30, quota.MaxPending)
			use, err := c.Node(0).NamespaceUse(t.Context(), "town")
			if err == nil && use.Pending > limit {
				t.Fatalf("%+v", use)
			}
			if err != nil || use.Pending < limit {
				return fmt.Errorf("%+v, %w", use, err)
			}
			return nil
		})
	})
}

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
