package shard

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// How far ahead of the clock the wheel may be moved.
const (
	minHorizon = 10 * time.Millisecond
	maxHorizon = 50 * time.Millisecond
)

// latencies measures commits and derives the horizon from them.
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

// add notes how long an entry took from its proposal until it was applied.
func (l *latencies) add(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ring[l.count%len(l.ring)] = d
	l.count++
	if l.count%16 == 0 {
		l.horizonNow.Store(int64(horizonFor(l.quantile(0.99))))
	}
}

// horizonFor: an Advance may have to wait for the entry before it, and then commits itself. A millisecond on top is for
// the timers.
func horizonFor(p99 time.Duration) time.Duration {
	return min(max(2*p99+time.Millisecond, minHorizon), maxHorizon)
}

// horizon is how far ahead of the clock the next Advance goes.
func (l *latencies) horizon() time.Duration { return time.Duration(l.horizonNow.Load()) }

// p50p99 returns two quantiles of the last samples.
func (l *latencies) p50p99() (p50, p99 time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.quantile(0.5), l.quantile(0.99)
}

func (l *latencies) quantile(q float64) time.Duration {
	n := min(l.count, len(l.ring))
	if n == 0 {
		return 0
	}
	sorted := slices.Clone(l.ring[:n])
	slices.Sort(sorted)
	return sorted[min(int(q*float64(n)), n-1)]
}
