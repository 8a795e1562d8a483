package shard

import (
	"sync"
	"time"
)

// clockGuard reads the wall clock and notices when it jumps ahead of the monotonic one. A jump back needs no care: what
// is due later by the clock waits longer.
type clockGuard struct {
	clock func() time.Time
	bound time.Duration

	mu         sync.Mutex
	wall, mono time.Time // of the last reading that was in order
}

func newClockGuard(clock func() time.Time, bound time.Duration) *clockGuard {
	g := &clockGuard{clock: clock, bound: bound}
	g.trust()
	return g
}

// now returns the wall clock. Once it has jumped ahead, ok is false until trust is called, and the answer goes on from
// the last reading that was in order: an instant that got into the log could not be taken back.
func (g *clockGuard) now() (_ time.Time, ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	wall, mono := g.clock().Round(0), time.Now() // without the reading of the monotonic clock that it may carry
	expected := g.wall.Add(mono.Sub(g.mono))
	if wall.Sub(expected) > g.bound {
		return expected, false
	}
	g.wall, g.mono = wall, mono
	return wall, true
}

// trust takes the clock as it is now: it has been compared with others.
func (g *clockGuard) trust() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.wall, g.mono = g.clock().Round(0), time.Now()
}
