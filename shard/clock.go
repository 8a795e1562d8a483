package shard

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// ErrClockApart is the error that Config.ClockAgrees wraps when a majority of the voters is known to keep another time
// than this node. One of those voters should lead.
var ErrClockApart = errors.New("a majority of the voters keeps another time")

// clockGuard reads the wall clock and notices a clock that was set: a jump, ahead or back, against the monotonic clock.
type clockGuard struct {
	clock func() time.Time
	bound time.Duration
	alone func() bool // reports whether this node is the only voter, so that no other clock can be compared

	mu         sync.Mutex
	wall, mono time.Time // the last reading without a jump
}

func newClockGuard(clock func() time.Time, bound time.Duration, alone func() bool) *clockGuard {
	g := &clockGuard{clock: clock, bound: bound, alone: alone}
	g.trust()
	return g
}

// now returns the wall clock's time. After a jump, ok is false until trust is called, and the time continues from the
// last reading before the jump. A time too far ahead could not be removed from the log, and a clock set back would
// delay all due tasks by the jump. The only voter of a group has no other clock to compare with, so its jumped clock
// counts as right at once: the sooner the log follows it, the fewer entries carry times that count from the old one.
func (g *clockGuard) now() (_ time.Time, ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	wall, mono := g.read()
	expected := g.wall.Add(mono.Sub(g.mono))
	if wall.Sub(expected).Abs() > g.bound && !g.alone() {
		return expected, false
	}
	g.wall, g.mono = wall, mono
	return wall, true
}

// trust accepts the clock's present time, after a comparison with other clocks.
func (g *clockGuard) trust() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.wall, g.mono = g.read()
}

const (
	together = 10 * time.Millisecond // two readings no further apart count as simultaneous
	readings = 3
)

// read reads both clocks. It reads again if the process was stopped between the two readings, because that pause would
// look like a jump.
func (g *clockGuard) read() (wall, mono time.Time) {
	for range readings {
		before := time.Now()
		wall, mono = g.clock().Round(0), time.Now() // Round strips the monotonic reading that the time may carry
		if mono.Sub(before) <= together {
			break
		}
	}
	return wall, mono
}

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
