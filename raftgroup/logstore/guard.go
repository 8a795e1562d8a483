package logstore

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/belfryhq/belfry/raftgroup/awake"
)

// guard stands before every write of a group. It lets one at a time through, times it, and lets none through after the
// first that failed.
type guard struct {
	timeout time.Duration // of time in which the process ran
	fatal   func(error)
	doubt   func()      // called at the first failure; nil: nothing
	armed   atomic.Bool // until then a failure is Open's to return, and fatal is not called

	turn   chan struct{} // of capacity 1: holds a token while a write runs
	failed chan struct{} // closed once err is set
	once   sync.Once
	err    error // read only after failed is closed
}

func newGuard(timeout time.Duration, fatal func(error)) *guard {
	return &guard{timeout: timeout, fatal: fatal, turn: make(chan struct{}, 1), failed: make(chan struct{})}
}

// run does one write in its turn. A write that waits for its turn while another one fails is not begun.
func (g *guard) run(op string, write func() error) error {
	select {
	case g.turn <- struct{}{}:
	case <-g.failed:
		return g.err
	}
	defer func() { <-g.turn }()
	return g.watch(op, write)
}

// watch does one write without waiting for a turn: for those that raft-wal makes in the background while a turn is
// held.
func (g *guard) watch(op string, write func() error) error {
	if err := g.failure(); err != nil {
		return err
	}
	hung := func() { _ = g.fail(fmt.Errorf("%s: %w after %v", op, ErrWriteTimeout, g.timeout)) }
	watchdog := awake.AfterFunc(g.timeout, hung)
	err := write()
	if !watchdog.Stop() {
		hung() // it came back, but too late: what others were told meanwhile stands
	}
	if err != nil {
		return g.fail(fmt.Errorf("%s: %w", op, err))
	}
	return g.failure()
}

// failure returns what the first failed write met, or nil.
func (g *guard) failure() error {
	select {
	case <-g.failed:
		return g.err
	default:
		return nil
	}
}

// fail records the first failure, calls fatal if it is the first, and returns the first.
func (g *guard) fail(err error) error {
	g.once.Do(func() {
		g.err = err
		close(g.failed)
		if g.doubt != nil && !errors.Is(err, ErrClosed) {
			g.doubt()
		}
		if g.armed.Load() {
			g.fatal(err)
		}
	})
	<-g.failed
	return g.err
}

// arm makes later failures fatal, and returns one that came before.
func (g *guard) arm() error {
	g.armed.Store(true)
	return g.failure()
}

// shut waits for the write that is under way and lets no further one through. It does not wait beyond a failure, and
// says then whether a write still hangs.
func (g *guard) shut() (idle bool) {
	select {
	case g.turn <- struct{}{}:
		idle = true
	case <-g.failed:
		select {
		case g.turn <- struct{}{}:
			idle = true
		default:
		}
	}
	g.armed.Store(false)
	_ = g.fail(ErrClosed)
	return idle
}
