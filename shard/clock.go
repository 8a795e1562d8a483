package shard

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/belfryhq/belfry/internal/wait"
)

// ErrClockApart is the error that Clocks.Agrees wraps when a majority of the voters is known to keep another time
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

// clockCheckTimeout limits one comparison of clocks. The leadership is offered to another voter after each
// checksBeforeAway failed comparisons, and at once if the comparison shows that another voter should lead.
const (
	clockCheckTimeout = time.Second
	checksBeforeAway  = 4
	checkPause        = 500 * time.Millisecond // after a failed comparison
)

// agreeOnClock compares this node's clock with those of a majority of the voters until they agree. It returns false if
// the leadership ends first.
func (l *leadership) agreeOnClock(ctx context.Context) bool {
	s := l.shard
	for failures := 1; ; failures++ {
		err := l.compareClocks(ctx)
		if err == nil {
			s.clock.trust()
			return ctx.Err() == nil
		}
		if ctx.Err() != nil {
			return false
		}
		s.cfg.Logger.Warn("clock is not agreed on: nothing is fired", "err", err)
		if errors.Is(err, ErrClockApart) || failures%checksBeforeAway == 0 {
			l.giveAway(ctx)
		}
		if !wait.For(ctx, checkPause) {
			return false
		}
	}
}

func (l *leadership) compareClocks(ctx context.Context) error {
	s := l.shard
	if s.cfg.Clocks == nil || s.isAlone() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, clockCheckTimeout)
	defer cancel()
	return s.cfg.Clocks.Agrees(ctx, s.Voters())
}

// isAlone reports whether this node is the group's only voter.
func (s *Shard) isAlone() bool { return len(s.Voters()) < 2 }

// awaitClock waits until a majority of the voters agrees with the time of a clock that has jumped.
func (l *leadership) awaitClock(ctx context.Context) {
	l.shard.metrics.clockPauses.Inc()
	l.shard.cfg.Logger.Warn("the clock was set: nothing is fired until others agree with it")
	l.agreeOnClock(ctx)
}
