package shard

import (
	"errors"
	"sync"
	"time"
)

// ErrClockApart is what Config.ClockAgrees says, wrapped, when a majority of the voters is known to keep another time
// than this node: one of them should lead.
var ErrClockApart = errors.New("a majority of the voters keeps another time")

// clockGuard reads the wall clock and notices when it is set: when it jumps against the monotonic one, ahead or back.
type clockGuard struct {
	clock func() time.Time
	bound time.Duration
	alone func() bool // there is no other clock to compare this one with

	mu         sync.Mutex
	wall, mono time.Time // of the last reading that was in order
}

func newClockGuard(clock func() time.Time, bound time.Duration, alone func() bool) *clockGuard {
	g := &clockGuard{clock: clock, bound: bound, alone: alone}
	g.trust()
	return g
}

// now returns the wall clock. Once it has jumped, ok is false until trust is called, and the answer goes on from the
// last reading that was in order. An instant too late that got into the log could not be taken back; and by a clock
// that was set back, what is due would wait for as long. Where there is no other clock, this one is right whatever it
// says: the sooner the log goes by it, the less is written that counts from a time which nobody believes in any more.
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

// trust takes the clock as it is now: it has been compared with others.
func (g *clockGuard) trust() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.wall, g.mono = g.read()
}

const (
	together = 10 * time.Millisecond // two readings this close are as good as one
	readings = 3
)

// read reads both clocks. A process that is stopped between the two readings reads again: it would take that for a
// jump.
func (g *clockGuard) read() (wall, mono time.Time) {
	for range readings {
		before := time.Now()
		wall, mono = g.clock().Round(0), time.Now() // Round: without the reading of the monotonic clock that it may carry
		if mono.Sub(before) <= together {
			break
		}
	}
	return wall, mono
}
