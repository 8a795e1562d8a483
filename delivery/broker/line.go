package broker

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/belfryhq/belfry/fsm/task/targeturl"
)

// line is a place in the pool: a link to a broker, or the wait for one.
type line struct {
	key      lineKey
	endpoint *endpoint

	ready chan struct{} // closed when link or err is set
	link  link
	err   error

	answered atomic.Int64 // when the broker last said anything, in Unix nanoseconds
	givenUp  atomic.Bool

	users   int         // under the pool's lock, as are the next two
	idle    *time.Timer // runs while there are no users
	dropped bool
}

// opened returns the link if there is one by now.
func (l *line) opened() link {
	select {
	case <-l.ready:
		return l.link
	default:
		return nil
	}
}

func (l *line) heard(now time.Time) { l.answered.Store(now.UnixNano()) }

// publish waits for the link and publishes over it.
func (l *line) publish(ctx context.Context, t *targeturl.Target, m *message) error {
	select {
	case <-l.ready:
	case <-ctx.Done():
		return ctx.Err() // nobody reads it: the attempt is over
	}
	if l.err != nil {
		return l.err
	}
	err := l.link.publish(ctx, t, m)
	if l.link.lost().Err() != nil && err != nil {
		return lostBy(l.link)
	}
	if ctx.Err() == nil {
		l.heard(time.Now())
	}
	return err
}

// giveUp closes a link over which the broker has answered nothing to anyone for as long as an attempt has waited, if
// that is longer than it is given: the connection may be dead without either side knowing. Attempts with a short time
// of their own never end the link of others.
func (l *line) giveUp(begun time.Time) {
	silent := time.Unix(0, max(l.answered.Load(), begun.UnixNano()))
	link := l.opened()
	if link == nil || time.Since(silent) < l.endpoint.cfg.Patience || !l.givenUp.CompareAndSwap(false, true) {
		return
	}
	go link.close(errSilent) // a goodbye takes time, and the attempt has none left
}

// late says what an attempt was waiting for when its time was over.
func (l *line) late(ctx context.Context) error {
	if !errors.Is(context.Cause(ctx), errTimedOut) && !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return context.Cause(ctx)
	}
	if l.opened() == nil {
		return &lateError{"connecting", l.endpoint.lastTrouble()}
	}
	return &lateError{"waiting for the broker's confirmation", l.endpoint.lastTrouble()}
}

// lostBy is why a link was lost while something was being published over it.
func lostBy(l link) error {
	cause := context.Cause(l.lost())
	if errors.Is(cause, errClosed) {
		return cause
	}
	return failed("the connection was lost before the broker confirmed: %s", worded(cause).text)
}

// life is the part that all links share: they end once, for a reason.
type life struct {
	ctx context.Context
	end context.CancelCauseFunc
}

func newLife() life {
	ctx, end := context.WithCancelCause(context.Background())
	return life{ctx, end}
}

func (l *life) lost() context.Context { return l.ctx }
