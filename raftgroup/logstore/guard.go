package logstore

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/belfryhq/belfry/raftgroup/internal/awake"
)

// guard stands before every write of a group. It admits one at a time, limits its time, and admits none after the first
// failure.
type guard struct {
	timeout time.Duration // in running time of the process
	fatal   func(error)
	doubt   func()      // called at the first failure; nil: none
	armed   atomic.Bool // until set, Open returns a failure, and fatal is not called

	turn   chan struct{} // capacity 1: holds a token while a write runs
	failed chan struct{} // closed once err is set
	once   sync.Once
	err    error // read only after failed is closed
}

func newGuard(timeout time.Duration, fatal func(error)) *guard {
	return &guard{timeout: timeout, fatal: fatal, turn: make(chan struct{}, 1), failed: make(chan struct{})}
}

// run executes one write in its turn. A write that waits while another one fails does not begin.
func (g *guard) run(op string, write func() error) error {
	select {
	case g.turn <- struct{}{}:
	case <-g.failed:
		return g.err
	}
	defer func() { <-g.turn }()
	return g.watch(op, write)
}

// watch executes one write without a turn. raft-wal makes such writes in the background while a turn is held.
func (g *guard) watch(op string, write func() error) error {
	if err := g.failure(); err != nil {
		return err
	}
	hung := func() { _ = g.fail(fmt.Errorf("%s: %w after %v", op, ErrWriteTimeout, g.timeout)) }
	watchdog := awake.AfterFunc(g.timeout, hung)
	err := write()
	if !watchdog.Stop() {
		hung() // the write returned too late: callers have already got the timeout
	}
	if err != nil {
		return g.fail(fmt.Errorf("%s: %w", op, err))
	}
	return g.failure()
}

// failure returns the error of the first failed write, or nil.
func (g *guard) failure() error {
	select {
	case <-g.failed:
		return g.err
	default:
		return nil
	}
}

// fail records the first failure and calls fatal for it. It returns the first failure.
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

// arm makes later failures fatal, and returns an earlier one.
func (g *guard) arm() error {
	g.armed.Store(true)
	return g.failure()
}

// shut waits for the write under way and admits no further one. It does not wait after a failure; idle then reports
// whether no write hangs.
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
