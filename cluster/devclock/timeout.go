package devclock

import (
	"context"
	"errors"
	"time"
)

// timeout is a context that ends by the clock.
type timeout struct {
	context.Context // cancelled with the cause context.DeadlineExceeded when the time is over
	at              time.Time
	over            context.CancelCauseFunc
}

// Err returns context.DeadlineExceeded if the time is over, as for any timeout.
func (t *timeout) Err() error {
	err := t.Context.Err()
	if err != nil && errors.Is(context.Cause(t.Context), context.DeadlineExceeded) {
		return context.DeadlineExceeded
	}
	return err
}

// Within returns a context that ends with context.DeadlineExceeded after d, by this clock. The context never ends later
// than by the machine's clock, because this clock runs at least as fast.
func (c *Clock) Within(parent context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	ctx, over := context.WithCancelCause(parent)
	t := &timeout{Context: ctx, at: c.Now().Add(d), over: over}
	timer := time.AfterFunc(d, func() { over(context.DeadlineExceeded) })
	c.mu.Lock()
	defer c.mu.Unlock()
	c.timeouts[t] = struct{}{}
	return t, func() {
		timer.Stop()
		over(context.Canceled)
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.timeouts, t)
	}
}

// expire ends the contexts whose time is over, and reports whether one ended.
func (c *Clock) expire() (ended bool) {
	now := c.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	for t := range c.timeouts {
		if !t.at.After(now) {
			t.over(context.DeadlineExceeded)
			delete(c.timeouts, t)
			ended = true
		}
	}
	return ended
}
