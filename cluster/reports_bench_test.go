package cluster_test

import (
	"testing"

	"github.com/belfryhq/belfry/cluster"
	"github.com/belfryhq/belfry/cluster/internal/clustertest"
)

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
