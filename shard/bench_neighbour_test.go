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

// The loads of BenchmarkNeighbour.
const (
	neighbourRate    = 200 // single schedules a second, at instants that do not depend on the answers
	neighbourCallers = 8   // of the closed loop
	stormCallers     = 8
	stormBatch       = 256
)

// BenchmarkNeighbour schedules single tasks in one namespace: at a fixed rate, and by eight callers of which each calls
// again after its answer. It does so alone, beside a storm of another namespace, and beside the same storm in the same
// namespace. The storm is eight callers that schedule 256 tasks at a time without a pause, so that two full entries of
// them always wait. They share the processors with all replicas.
func BenchmarkNeighbour(b *testing.B) {
	for _, load := range []string{"rate", "callers"} {
		for _, storm := range []string{"alone", "other", "same"} {
			b.Run(load+"/"+storm, func(b *testing.B) { benchmarkNeighbour(b, load, storm) })
		}
	}
}

func benchmarkNeighbour(b *testing.B, load, storm string) {
	c := lanOnDisk(b, 3)
	defer c.close()
	n := &neighbours{b: b, leader: c.leader(), due: time.Now().Add(48 * time.Hour)}
	namespaces := map[string]string{"other": "storm", "same": "calm"}
	stop := func() {}
	if storm != "alone" {
		stop = n.storm(namespaces[storm])
	}
	b.ResetTimer()
	if load == "rate" {
		n.callAtRate()
	} else {
		n.callInTurn()
	}
	b.StopTimer()
	n.report()
	stop()
}

// neighbours are two namespaces that call one leader.
type neighbours struct {
	b       *testing.B
	leader  *node
	due     time.Time
	stormed atomic.Int64 // tasks of the storm

	mu   sync.Mutex
	took []time.Duration
}

// storm schedules without a pause until stop is called.
func (n *neighbours) storm(namespace string) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var callers sync.WaitGroup
	for caller := range stormCallers {
		callers.Go(func() {
			for i := 0; ctx.Err() == nil; i = (i + stormBatch) % (20 * stormBatch) {
				n.do(namespace, fmt.Sprint("storm", caller), stormBatch, i)
				n.stormed.Add(stormBatch)
			}
		})
	}
	return func() { cancel(); callers.Wait() }
}

// do schedules tasks, or schedules them anew.
func (n *neighbours) do(namespace, prefix string, tasks, from int) {
	cmds := make([]*fsmpb.Command, tasks)
	for i := range cmds {
		cmds[i] = schedule(fmt.Sprintf("%s-%d", prefix, from+i), n.due)
		cmds[i].Namespace = namespace
		cmds[i].GetSchedule().Spec.Payload = make([]byte, 200)
	}
	for _, reply := range n.leader.Do(context.Background(), cmds) {
		if reply.Err != nil {
			n.b.Error(reply.Err)
		}
	}
}

// call makes one call of the calm namespace. Its latency counts from the instant at which it was meant to begin.
func (n *neighbours) call(number int, meant time.Time) {
	n.do("calm", "calm", 1, number)
	took := time.Since(meant)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.took = append(n.took, took)
}

func (n *neighbours) callAtRate() {
	var calls sync.WaitGroup
	began := time.Now()
	for i := range n.b.N {
		meant := began.Add(time.Duration(i) * time.Second / neighbourRate)
		<-time.After(time.Until(meant))
		calls.Go(func() { n.call(i, meant) })
	}
	calls.Wait()
}

func (n *neighbours) callInTurn() {
	var callers sync.WaitGroup
	for caller := range neighbourCallers {
		callers.Go(func() {
			for i := caller; i < n.b.N; i += neighbourCallers {
				n.call(i, time.Now())
			}
		})
	}
	callers.Wait()
}

func (n *neighbours) report() {
	slices.Sort(n.took)
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	n.b.ReportMetric(ms(n.took[len(n.took)/2]), "p50-ms")
	n.b.ReportMetric(ms(n.took[len(n.took)*99/100]), "p99-ms")
	n.b.ReportMetric(float64(len(n.took))/n.b.Elapsed().Seconds(), "calls/s")
	n.b.ReportMetric(float64(n.stormed.Load())/n.b.Elapsed().Seconds(), "storm/s")
	n.leader.latencies.mu.Lock()
	defer n.leader.latencies.mu.Unlock()
	n.b.ReportMetric(ms(n.leader.latencies.quantile(0.5)), "entry-p50-ms")
	n.b.ReportMetric(ms(n.leader.latencies.quantile(0.99)), "entry-p99-ms")
}
