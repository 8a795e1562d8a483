package cluster_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/belfryhq/belfry/cluster"
	"github.com/belfryhq/belfry/cluster/internal/clustertest"
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
)

// consume leases tasks until the context ends, and reports each task's lateness.
func consume(ctx context.Context, b *testing.B, c *clustertest.Cluster, node, most int, ack bool,
	late chan<- time.Duration) {
	n := c.Node(node)
	for ctx.Err() == nil {
		tasks, err := n.Lease(ctx, task.LeaseRequest{Queue: "work", Max: most, Lease: time.Minute})
		if err != nil {
			b.Error(err)
			return
		}
		now := time.Now()
		var cmds []*fsmpb.Command
		for _, task := range tasks {
			late <- now.Sub(time.UnixMilli(task.FireAtMs))
			cmds = append(cmds, settle(task, fsmpb.Verdict_VERDICT_DELIVERED))
		}
		if ack && len(cmds) > 0 {
			for _, r := range n.Do(context.WithoutCancel(ctx), cmds) {
				if r.Err != nil || r.Result.Code != fsmpb.Code_CODE_OK {
					b.Error(r)
				}
			}
		}
	}
}

// fill schedules tasks through all nodes, spread evenly over a span that begins at an instant.
func fill(b *testing.B, c *clustertest.Cluster, count int, at time.Time, span time.Duration) {
	b.Helper()
	var wg sync.WaitGroup
	const batch = 1000
	for from := 0; from < count; from += batch {
		var cmds []*fsmpb.Command
		for i := from; i < min(from+batch, count); i++ {
			cmd := pulled("work", fmt.Sprint("task-", i), 0)
			cmd.Key = nil // each round schedules anew
			cmd.GetSchedule().FireAtMs = at.Add(span * time.Duration(i) / time.Duration(count)).UnixMilli()
			cmds = append(cmds, cmd)
		}
		wg.Go(func() { mustDo(b, c.Node(from/batch%3), cmds...) })
	}
	wg.Wait()
}

func quantiles(b *testing.B, late []time.Duration) {
	slices.Sort(late)
	at := func(q float64) float64 { return float64(late[int(q*float64(len(late)-1))].Microseconds()) / 1000 }
	b.ReportMetric(at(0.5), "p50-ms")
	b.ReportMetric(at(0.99), "p99-ms")
	b.ReportMetric(at(1), "max-ms")
}

// BenchmarkPullPunctual schedules a thousand tasks a second for two seconds, while a consumer waits at each of three
// nodes.
func BenchmarkPullPunctual(b *testing.B) {
	c := clustertest.NewOnLoopback(b, 3, nil)
	c.Until("leaderships are where they belong", func() error { return atHome(c.Node(0).View(b.Context())) })
	for b.Loop() {
		const count = 2000
		late := make(chan time.Duration, count)
		ctx, cancel := context.WithCancel(b.Context())
		var wg sync.WaitGroup
		fill(b, c, count, time.Now().Add(2*time.Second), 2*time.Second)
		for i := range 3 {
			wg.Go(func() { consume(ctx, b, c, i, 100, true, late) })
		}
		var all []time.Duration
		for len(all) < count {
			all = append(all, <-late)
		}
		cancel()
		wg.Wait()
		quantiles(b, all)
	}
	for i := range 3 {
		b.Logf("node %d: released %v of %v", i, metric(b, c.Registry(i), "belfry_pull_released_total"),
			metric(b, c.Registry(i), "belfry_pull_leased_total"))
	}
}

// BenchmarkPullDrain has 50 000 tasks come due in one millisecond, for six consumers with a max of 1000.
func BenchmarkPullDrain(b *testing.B) {
	c := clustertest.NewOnLoopback(b, 3, nil)
	c.Until("leaderships are where they belong", func() error { return atHome(c.Node(0).View(b.Context())) })
	for b.Loop() {
		const count = 50_000
		late := make(chan time.Duration, count)
		ctx, cancel := context.WithCancel(b.Context())
		var wg sync.WaitGroup
		fill(b, c, count, time.Now().Add(5*time.Second), 0)
		for i := range 6 {
			wg.Go(func() { consume(ctx, b, c, i%3, 1000, false, late) })
		}
		var all []time.Duration
		for len(all) < count {
			all = append(all, <-late)
		}
		cancel()
		wg.Wait()
		quantiles(b, all)
	}
	for i := range 3 {
		b.Logf("node %d: released %v of %v", i, metric(b, c.Registry(i), "belfry_pull_released_total"),
			metric(b, c.Registry(i), "belfry_pull_leased_total"))
	}
}

// BenchmarkDo schedules single tasks by 64 callers at the three nodes of one process. Two of three calls go on to the
// leader's node. The allocations are those of all nodes.
func BenchmarkDo(b *testing.B) {
	c := clustertest.NewOnLoopback(b, 3, nil)
	c.Until("leaderships are where they belong", func() error { return atHome(c.Node(0).View(b.Context())) })
	var next atomic.Int64
	var wg sync.WaitGroup
	b.ReportAllocs()
	b.ResetTimer()
	for caller := range 64 {
		wg.Go(func() {
			for n := next.Add(1); n <= int64(b.N); n = next.Add(1) {
				cmd := pulled("work", fmt.Sprint("task-", n), 0)
				cmd.GetSchedule().FireAtMs = time.Now().Add(time.Hour).UnixMilli()
				mustDo(b, c.Node(caller%3), cmd)
			}
		})
	}
	wg.Wait()
	b.StopTimer()
	calls, messages := 0.0, 0.0
	for i := range 3 {
		calls += metric(b, c.Registry(i), "belfry_forward_calls_total")
		messages += metric(b, c.Registry(i), "belfry_forward_messages_total")
	}
	b.ReportMetric(calls/messages, "calls/message")
}

// BenchmarkReports asks five nodes with 48 shards for the reports that the leader of the control group needs: for
// faults every two seconds, for one replica's applied index ten times a second while it is copied, and for the commands
// of all shards twice a minute. The whole status is the measure for all of them.
func BenchmarkReports(b *testing.B) {
	c := clustertest.NewOnLoopback(b, 5, func(_ int, cfg *cluster.Config) { cfg.Shards = 48 })
	n := c.Node(0)
	shard := n.View(b.Context()).Shards[0]
	other := shard.Replicas[0].Node
	if other == n.ID() {
		other = shard.Replicas[1].Node
	}
	b.Run("faults", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if faults := n.Faults(b.Context()); len(faults) > 0 {
				b.Fatal(faults)
			}
		}
	})
	b.Run("applied", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := n.Applied(b.Context(), other, shard.ID); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("commands", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if commands := n.Commands(b.Context()); len(commands) != 48 {
				b.Fatal(len(commands), " shards report")
			}
		}
	})
	b.Run("status", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			n.View(b.Context())
		}
	})
}
