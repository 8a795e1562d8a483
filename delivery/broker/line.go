package broker

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/belfryhq/belfry/fsm/task/targeturl"
)

// line is a place in the pool: a link to a broker, or the wait for a link.
type line struct {
	key      lineKey
	endpoint *endpoint

	ready chan struct{} // closed when link or err is set
	link  link
	err   error

	answered atomic.Int64 // when the broker last answered, in Unix nanoseconds
	givenUp  atomic.Bool

	users   int         // this and the next two are guarded by the pool's lock
	idle    *time.Timer // runs while there are no users
	dropped bool
}

// opened returns the link, or nil if it is not open yet.
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
		return ctx.Err() // ignored, since the attempt is over
	}
	if l.err != nil {
		return l.err
	}
	err := l.link.publish(ctx, t, m)
	if l.link.lost().Err() != nil && err != nil {
		return lostBy(l.link.lost())
	}
	if ctx.Err() == nil {
		l.heard(time.Now())
	}
	return err
}

// giveUp closes a link if the broker has answered no attempt for at least Config.Patience since begun: the connection
// may be dead unnoticed. Attempts with a shorter time never end the link of others.
func (l *line) giveUp(begun time.Time) {
	silent := time.Unix(0, max(l.answered.Load(), begun.UnixNano()))
	link := l.opened()
	if link == nil || time.Since(silent) < l.endpoint.cfg.Patience || !l.givenUp.CompareAndSwap(false, true) {
		return
	}
	go link.close(errSilent) // a close takes time, and the attempt has none left
}

// late returns the error of an attempt whose time is over. It names the step that the attempt waited for.
func (l *line) late(ctx context.Context) error {
	if cause := context.Cause(ctx); !errors.Is(cause, errTimedOut) && !errors.Is(cause, context.DeadlineExceeded) {
		return cause
	}
	if l.opened() == nil {
		return &lateError{"connecting", l.endpoint.lastTrouble()}
	}
	return &lateError{"waiting for the broker's confirmation", l.endpoint.lastTrouble()}
}

// lostBy returns the reason why a link or one of its connections was lost during a publish.
func lostBy(lost context.Context) error {
	cause := context.Cause(lost)
	if errors.Is(cause, errClosed) {
		return cause
	}
	return failed("the connection was lost before the broker confirmed: %s", worded(cause).text)
}

// life is the part that all links share. A link ends once, with a cause.
type life struct {
	ctx context.Context
	end context.CancelCauseFunc
}

func newLife() life {
	ctx, end := context.WithCancelCause(context.Background())
	return life{ctx, end}
}

func (l *life) lost() context.Context { return l.ctx }
