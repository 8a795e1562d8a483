package shard

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/shard/dispatch/desk"
)

// The load of BenchmarkConsumerStorm.
const (
	stormShards = 12
	stormTasks  = 50_000 / stormShards // tasks due at once, in each shard
	stormProbes = 200                  // single schedules a second, in each shard
	stormLasts  = 1500 * time.Millisecond
	stormIn     = 5 * time.Second // time to prepare all shards
)

// BenchmarkConsumerStorm has 50 000 tasks of 12 shards come due in one millisecond. Consumers take and acknowledge
// them; all replicas run on real files in this process. It measures the time until all tasks are settled, and the
// latency of single schedules meanwhile, from their intended instants.
func BenchmarkConsumerStorm(b *testing.B) {
	var latencies []time.Duration
	var drained time.Duration
	for b.Loop() {
		due := time.Now().Add(stormIn).Truncate(time.Millisecond)
		var all, groups sync.WaitGroup
		var mu sync.Mutex
		groups.Add(stormShards)
		for range stormShards {
			all.Go(func() {
				took, probes := stormInShard(b, due, &groups)
				mu.Lock()
				defer mu.Unlock()
				drained = max(drained, took)
				latencies = append(latencies, probes...)
			})
		}
		all.Wait()
	}
	if b.Failed() {
		return
	}
	slices.Sort(latencies)
	at := func(q float64) float64 {
		return float64(latencies[int(q*float64(len(latencies)-1))].Microseconds()) / 1000
	}
	b.ReportMetric(float64(drained.Microseconds())/1000, "ms-drained")
	b.ReportMetric(at(0.5), "ms-p50")
	b.ReportMetric(at(0.99), "ms-p99")
	b.ReportMetric(at(1), "ms-max")
}

// stormInShard runs one shard's part of the storm once all shards are ready.
func stormInShard(b *testing.B, due time.Time, ready *sync.WaitGroup) (drained time.Duration, probes []time.Duration) {
	isReady := sync.OnceFunc(ready.Done)
	defer isReady() // a failed shard counts as ready too, because the others wait for it
	c := lanOnDisk(b, 3)
	defer c.close()
	n := c.leader()
	var cmds []*fsmpb.Command
	for i := range stormTasks {
		cmds = append(cmds, inQueue("storm", fmt.Sprintf("storm-%d", i), due))
	}
	n.mustAll(b, cmds)
	worker := newStormWorker(b, n)
	isReady()
	ready.Wait()
	if time.Until(due) < 0 {
		b.Error("not ready when the storm began: too much else runs on this machine")
		return 0, nil
	}
	var both sync.WaitGroup
	both.Go(func() { drained = worker.work(due) })
	both.Go(func() { probes = probeFor(b, n, due) })
	both.Wait()
	return drained, probes
}

// probeFor makes single schedules one after the other at a fixed rate.
func probeFor(b *testing.B, n *node, from time.Time) (latencies []time.Duration) {
	for i := range int(stormProbes * stormLasts.Seconds()) {
		meant := from.Add(time.Duration(i) * time.Second / stormProbes)
		<-time.After(time.Until(meant))
		reply := n.Do(b.Context(), []*fsmpb.Command{schedule(fmt.Sprintf("probe-%d", i), from.Add(time.Hour))})
		if reply[0].Err != nil {
			b.Error(reply[0].Err)
			return nil
		}
		latencies = append(latencies, time.Since(meant))
	}
	return latencies
}

// stormWorker takes tasks and acknowledges together all that have come meanwhile.
type stormWorker struct {
	b      *testing.B
	node   *node
	demand *desk.Demand
	come   chan struct{} // capacity 1
	ended  chan struct{} // closed: no more tasks come

	mu    sync.Mutex
	tasks []*fsmpb.Task
}

// stormRoom is the number of tasks that may be on their way to the worker.
const stormRoom = 1000

func newStormWorker(b *testing.B, n *node) *stormWorker {
	w := &stormWorker{b: b, node: n, come: make(chan struct{}, 1), ended: make(chan struct{})}
	var err error
	ask := task.LeaseRequest{Namespace: "default", Queue: "storm", Max: stormRoom, Lease: time.Minute}
	if w.demand, err = n.Lease(ask, w); err != nil {
		b.Error(err)
	}
	return w
}

func (w *stormWorker) Take(leased task.Leased) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.tasks = append(w.tasks, leased.Tasks...)
	wake(w.come)
}

func (w *stormWorker) Nothing(uint64) {}

func (w *stormWorker) End(error) { close(w.ended) }

func (w *stormWorker) work(due time.Time) time.Duration {
	for done := 0; done < stormTasks; {
		select {
		case <-w.come:
		case <-w.ended:
			w.b.Error("the leadership ended")
			return 0
		}
		w.mu.Lock()
		tasks := w.tasks
		w.tasks = nil
		w.mu.Unlock()
		var cmds []*fsmpb.Command
		for _, t := range tasks {
			cmds = append(cmds, settleOf(t, fsmpb.Verdict_VERDICT_DELIVERED))
		}
		done += len(cmds)
		w.demand.Set(uint64(done+stormRoom), uint64(done), 0)
		for _, reply := range w.node.Do(w.b.Context(), cmds) {
			if reply.Err != nil {
				w.b.Error(reply.Err)
				return 0
			}
		}
	}
	return time.Since(due)
}
