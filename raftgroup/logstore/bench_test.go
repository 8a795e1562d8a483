package logstore

import (
	"fmt"
	"testing"

	"github.com/hashicorp/raft"

	"github.com/belfryhq/belfry/internal/assert"
)

// BenchmarkStoreLogs appends entries of 200 bytes, fsync included. It cuts the log now and then, as snapshots do.
func BenchmarkStoreLogs(b *testing.B) {
	data := make([]byte, 200)
	for _, kind := range []Kind{WAL, BoltDB} {
		for _, n := range []int{1, 4, 16, 64, 256} {
			b.Run(fmt.Sprintf("%s/%d", kind, n), func(b *testing.B) {
				s := mustOpen(b, Config{Dir: b.TempDir(), Kind: kind, segmentSize: defaultSegmentSize})
				logs := make([]*raft.Log, n)
				for i := range logs {
					logs[i] = &raft.Log{Term: 1, Data: data}
				}
				var last, kept uint64
				b.ReportAllocs()
				for b.Loop() {
					for _, l := range logs {
						last++
						l.Index = last
					}
					mustStore(b, s, logs)
					if last-kept > 50_000 {
						assert.NoError(b, s.Log().DeleteRange(kept+1, last-1000))
						kept = last - 1000
					}
				}
				b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds(), "entries/s")
			})
		}
	}
}

// BenchmarkGuard measures the guard's own cost per write.
func BenchmarkGuard(b *testing.B) {
	g := newGuard(DefaultWriteTimeout, noFatal(b))
	nothing := func() error { return nil }
	b.ReportAllocs()
	for b.Loop() {
		assert.NoError(b, g.run("nothing", nothing))
	}
}
