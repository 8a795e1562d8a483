package client

import (
	"context"
	"time"
)

// waiter is one ordinary call that waits for its line's answer.
type waiter struct {
	c     *Client
	line  line
	group group
	timer *time.Timer // of the call
}

// newWaiter begins a call about a task. The caller appends the line to line.data.
func (c *Client) newWaiter(verb, id string) *waiter {
	w, ok := c.waiters.Get().(*waiter)
	if !ok {
		w = &waiter{c: c, timer: time.NewTimer(time.Hour)}
		w.timer.Stop()
		w.group.done = make(chan struct{}, 1)
		w.line.group = &w.group
	}
	w.line.verb, w.line.id = verb, id
	w.line.data = w.line.data[:0]
	return w
}

// keptLine is the largest line buffer that is reused, in bytes. The collector takes larger ones.
const keptLine = 4 << 10

// free ends the use of a waiter whose line no lane holds.
func (w *waiter) free() {
	l := &w.line
	if cap(l.data) > keptLine {
		l.data = nil
	}
	l.verb, l.id, l.shard, l.failed, l.result = "", "", nil, nil, Result{}
	w.c.waiters.Put(w)
}

// wait sends the call's line until the line has its final answer, or the call's time is up.
func (w *waiter) wait(ctx context.Context) (Result, error) {
	if ctx.Err() != nil {
		defer w.free()
		w.line.trouble().end(&unsentError{ctx.Err()}, ctx.Err())
		return Result{ID: w.line.id}, w.line.failed
	}
	deadline := time.Now().Add(w.c.cfg.Timeout)
	w.timer.Reset(w.c.cfg.Timeout)
	left := w.attempt(ctx)
	for !left && w.again(ctx, deadline) {
		left = w.attempt(ctx)
	}
	r := w.line.result
	if !left { // else a lane still holds the line
		w.timer.Stop()
		w.free()
	}
	return r, r.Err
}

// attempt sends the line once. left reports whether the caller left without an answer.
func (w *waiter) attempt(ctx context.Context) (left bool) {
	w.group.left.Store(1)
	w.c.directory.route(&w.line).put(&w.line)
	var why error
	select {
	case <-w.group.done:
		return false
	case <-ctx.Done():
		why = ctx.Err()
	case <-w.timer.C:
		why = context.DeadlineExceeded
	}
	w.line.leave(why)
	<-w.group.done // waits for an answer that is just being written
	return w.line.failed != nil && w.line.failed.ended != nil
}

// again waits for the next attempt. It returns false if there should be none.
func (w *waiter) again(ctx context.Context, deadline time.Time) bool {
	failed := w.line.failed
	if w.line.result.Err == nil || failed.ended != nil || !w.c.repeats(failed) {
		return false
	}
	ctx, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	failed.ended = w.c.wait(ctx, w.c.pause(failed.attempts, failed.last))
	return failed.ended == nil
}
