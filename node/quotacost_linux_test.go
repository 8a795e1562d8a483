package node

import (
	"testing"
	"time"

	"github.com/belfryhq/belfry/quota"
)

// BenchmarkCostOfQuotas measures the processor time of three nodes for each scheduled task, without quotas and with all
// of them far from their limits, by turns. Run it with -benchtime 1x.
func BenchmarkCostOfQuotas(b *testing.B) {
	nodes := startThree(b)
	var l load
	for _, n := range nodes {
		l.URLs = append(l.URLs, "http://"+n.HTTPAddr())
	}
	kinds := []struct {
		unit   string
		limits quota.Limits
	}{
		{"µs/task", quota.Limits{}},
		{"µs/task-claims", quota.Limits{MaxPending: 1e12, MaxBytes: 1e14}},
		{"µs/task-all", quota.Limits{
			MaxPending: 1e12, MaxBytes: 1e14, MaxPayload: 1 << 18, SchedulesPerSecond: quota.MaxPerSecond,
			CallsPerSecond: quota.MaxPerSecond, MaxConsumers: 1e6, MaxQueues: 1e6,
		}},
	}
	for name, size := range map[string][2]int{"single": {1500, 0}, "batch": {12, 1000}} {
		b.Run(name, func(b *testing.B) {
			const rounds = 40
			cost := make([][]float64, len(kinds)) // in µs for each task
			for round := range rounds + 1 {       // the first one only warms up
				for turn := range kinds {
					kind := (round + turn) % len(kinds)
					limitTo(b, nodes, kinds[kind].limits)
					l.Calls, l.Lines = size[0], size[1]
					cost[kind] = append(cost[kind], float64(l.run(b).Nanoseconds())/1000)
				}
			}
			b.ReportMetric(0, "ns/op")
			base, _ := summary(cost[0][1:], nil)
			for kind, k := range kinds {
				mean, spread := summary(cost[kind][1:], nil)
				b.ReportMetric(mean, k.unit)
				b.Logf("%s: %.2f ± %.2f", k.unit, mean, spread)
				if kind > 0 {
					added, spread := summary(cost[kind][1:], cost[0][1:])
					b.Logf("added: %.2f ± %.2f µs, %.2f ± %.2f %%", added, spread, 100*added/base, 100*spread/base)
				}
			}
		})
	}
}

// limitTo sets the quotas of the default namespace, and waits until all nodes know them.
func limitTo(b *testing.B, nodes []*Node, limits quota.Limits) {
	b.Helper()
	if _, _, err := nodes[0].cluster.Tenants().PutNamespace(b.Context(), "default", limits); err != nil {
		b.Fatal(err)
	}
	ticker := time.NewTicker(time.Millisecond)
	defer ticker.Stop()
	for _, n := range nodes {
		for known, _ := n.cluster.Tenants().Namespace("default"); quota.Limits(known.Quotas) != limits; {
			<-ticker.C
			known, _ = n.cluster.Tenants().Namespace("default")
		}
	}
}
