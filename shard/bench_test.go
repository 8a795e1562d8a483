package shard

import (
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/belfryhq/belfry/fsm/fsmpb"
)

// BenchmarkDo schedules tasks of 200 bytes on real files over an in-memory network, all replicas in this process. Each
// acknowledged schedule is on the disks of a majority.
func BenchmarkDo(b *testing.B) {
	for _, n := range []int{1, 3} {
		for _, callers := range []int{1, 64, 512} {
			for _, batch := range []int{1, 100} {
				b.Run(fmt.Sprintf("replicas=%d/callers=%d/batch=%d", n, callers, batch), func(b *testing.B) {
					benchmarkDo(b, n, callers, batch)
				})
			}
		}
	}
}

// lanOnDisk starts replicas on real files, with the timing of a LAN and without snapshots.
func lanOnDisk(b *testing.B, n int) *replicas {
	dir := b.TempDir()
	c := onDisk(n, b, func(id string) string { return filepath.Join(dir, id) })
	tune := c.tune
	c.tune = func(cfg *Config) { tune(cfg); cfg.Timing, cfg.SnapshotLog = LAN(), 0 }
	c.startAll()
	return c
}

func benchmarkDo(b *testing.B, n, callers, batch int) {
	c := lanOnDisk(b, n)
	defer c.close()
	leader, due := c.leader(), time.Now().Add(48*time.Hour)
	var next atomic.Int64
	var wg sync.WaitGroup
	b.ResetTimer()
	for range callers {
		wg.Go(func() {
			for {
				to := next.Add(int64(batch))
				from := to - int64(batch)
				if from >= int64(b.N) {
					return
				}
				var cmds []*fsmpb.Command
				for i := from; i < min(to, int64(b.N)); i++ {
					cmd := schedule(fmt.Sprintf("task-%d", i), due)
					cmd.GetSchedule().Spec.Payload = make([]byte, 200)
					cmds = append(cmds, cmd)
				}
				for _, reply := range leader.Do(b.Context(), cmds) {
					if reply.Err != nil {
						b.Error(reply.Err)
						return
					}
				}
			}
		})
	}
	wg.Wait()
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "schedules/s")
	leader.latencies.mu.Lock()
	defer leader.latencies.mu.Unlock()
	b.ReportMetric(float64(leader.latencies.quantile(0.5).Microseconds()), "commit-p50-µs")
	b.ReportMetric(float64(leader.latencies.quantile(0.99).Microseconds()), "commit-p99-µs")
}

// BenchmarkTransfer gives the leadership to the next replica again and again, on real files. It measures for how long a
// shard that is called without a pause does not answer.
func BenchmarkTransfer(b *testing.B) {
	c := lanOnDisk(b, 3)
	defer c.close()
	leader, due := c.leader(), time.Now().Add(48*time.Hour)
	var longest, sum time.Duration
	for i := 0; b.Loop(); i++ {
		to := c.others(leader.cfg.NodeID)[0]
		moved := make(chan error, 1)
		last, gap := time.Now(), time.Duration(0)
		go func() { moved <- leader.Transfer(b.Context(), to) }()
		for n, by := 0, ""; by != to; n++ {
			for _, id := range []string{leader.cfg.NodeID, to} {
				reply := c.nodes[id].Do(b.Context(), []*fsmpb.Command{schedule(fmt.Sprintf("t-%d-%d", i, n), due)})
				if reply[0].Err == nil {
					gap, last, by = max(gap, time.Since(last)), time.Now(), id
				}
			}
		}
		if err := <-moved; err != nil {
			b.Fatal(err)
		}
		leader = c.nodes[to]
		sum += gap
		longest = max(longest, gap)
	}
	b.ReportMetric(float64(sum.Microseconds())/float64(b.N)/1000, "ms-silent")
	b.ReportMetric(float64(longest.Microseconds())/1000, "ms-silent-max")
}
