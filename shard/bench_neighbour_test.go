package shard

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/belfryhq/belfry/fsm/fsmpb"
)

// BenchmarkNeighbour schedules single tasks by eight callers: alone, beside 64 callers of another namespace that
// schedule 100 tasks at a time without a pause, and beside such callers of the same namespace.
func BenchmarkNeighbour(b *testing.B) {
	for _, storm := range []string{"alone", "other", "same"} {
		b.Run(storm, func(b *testing.B) { benchmarkNeighbour(b, storm) })
	}
}

func benchmarkNeighbour(b *testing.B, storm string) {
	c := lanOnDisk(b, 3)
	defer c.close()
	leader, due := c.leader(), time.Now().Add(48*time.Hour)
	do := func(namespace, prefix string, n, from int) {
		cmds := make([]*fsmpb.Command, n)
		for i := range cmds {
			cmds[i] = schedule(fmt.Sprintf("%s-%d", prefix, from+i), due)
			cmds[i].Namespace = namespace
			cmds[i].GetSchedule().Spec.Payload = make([]byte, 200)
		}
		for _, reply := range leader.Do(context.Background(), cmds) {
			if reply.Err != nil {
				b.Error(reply.Err)
			}
		}
	}
	ctx, stop := context.WithCancel(context.Background())
	var storms, callers sync.WaitGroup
	var stormed atomic.Int64
	if storm != "alone" {
		namespace := map[string]string{"other": "storm", "same": "calm"}[storm]
		for caller := range 64 {
			storms.Go(func() {
				for i := 0; ctx.Err() == nil; i = (i + 100) % 5000 {
					do(namespace, fmt.Sprint("storm", caller), 100, i)
					stormed.Add(100)
				}
			})
		}
	}
	var mu sync.Mutex
	var took []time.Duration
	b.ResetTimer()
	for caller := range 8 {
		callers.Go(func() {
			for i := range (b.N + 7) / 8 {
				began := time.Now()
				do("calm", fmt.Sprint("calm", caller), 1, i)
				mu.Lock()
				took = append(took, time.Since(began))
				mu.Unlock()
			}
		})
	}
	callers.Wait()
	b.StopTimer()
	b.ReportMetric(float64(stormed.Load())/b.Elapsed().Seconds(), "storm/s")
	stop()
	storms.Wait()
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "p50-ms")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "p99-ms")
	b.ReportMetric(float64(len(took))/b.Elapsed().Seconds(), "calls/s")
}
