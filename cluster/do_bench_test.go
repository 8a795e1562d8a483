package cluster_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/belfryhq/belfry/cluster/internal/clustertest"
)

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
		calls += counter(b, c.Registry(i), "belfry_forward_calls_total")
		messages += counter(b, c.Registry(i), "belfry_forward_messages_total")
	}
	b.ReportMetric(calls/messages, "calls/message")
}
