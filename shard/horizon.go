package shard

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// The bounds of the horizon, the time by which the wheel may run ahead of the clock.
const (
	minHorizon = 10 * time.Millisecond
	maxHorizon = 50 * time.Millisecond
)

// latencies holds the latest commit times and derives the horizon from them.
type latencies struct {
	horizonNow atomic.Int64 // nanoseconds

	mu    sync.Mutex
	ring  [256]time.Duration
	count int // of all samples so far
}

func newLatencies() *latencies {
	l := &latencies{}
	l.horizonNow.Store(int64(minHorizon))
	return l
}

// add records the time from an entry's proposal until it was applied.
func (l *latencies) add(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ring[l.count%len(l.ring)] = d
	l.count++
	if l.count%16 == 0 {
		l.horizonNow.Store(int64(horizonFor(l.quantile(0.99))))
	}
}

// horizonFor returns the horizon for a 99th percentile of commit times. An Advance may have to wait for the entry
// before it and then commits itself, hence twice p99. One more millisecond covers the timers.
func horizonFor(p99 time.Duration) time.Duration {
	return min(max(2*p99+time.Millisecond, minHorizon), maxHorizon)
}

// horizon returns the time by which the next Advance goes ahead of the clock.
func (l *latencies) horizon() time.Duration { return time.Duration(l.horizonNow.Load()) }

// quantile returns a quantile of the last 256 commit times. The caller holds mu.
func (l *latencies) quantile(q float64) time.Duration {
	n := min(l.count, len(l.ring))
	if n == 0 {
		return 0
	}
	sorted := slices.Clone(l.ring[:n])
	slices.Sort(sorted)
	return sorted[min(int(q*float64(n)), n-1)]
}
