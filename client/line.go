package client

import (
	"context"
	"sync/atomic"
	"time"
)

// line is one operation in a request with others. Its caller owns it, except while a lane holds it.
type line struct {
	data    []byte // in JSON, with its end
	verb    string
	id      string // the task's id
	receipt string // of the lease that the line settles

	shard  *shard // the task's shard; nil: unknown
	group  *group
	state  atomic.Int32
	result Result
	failed *callError // failures of its attempts so far; nil: none
}

// The states of a line in a lane. The goroutine that changes it from waiting or sent to answered gives the answer, and
// only that goroutine touches the result.
const (
	lineWaiting int32 = iota
	lineSent
	lineAnswered
)

// group is a wait for several lines at once.
type group struct {
	left atomic.Int32  // lines without an answer
	done chan struct{} // capacity 1: filled when left comes to 0
}

func (g *group) answered() {
	if g.left.Add(-1) == 0 {
		g.done <- struct{}{}
	}
}

// answer gives a sent line its answer, unless its caller has left.
func (l *line) answer(r Result, err error) {
	if l.state.CompareAndSwap(lineSent, lineAnswered) {
		l.settle(r, err)
		l.group.answered()
	}
}

// leave takes a line from its lane with the error why, unless the line was answered meanwhile.
func (l *line) leave(why error) {
	err := error(&unsentError{why})
	if !l.state.CompareAndSwap(lineWaiting, lineAnswered) {
		if !l.state.CompareAndSwap(lineSent, lineAnswered) {
			return
		}
		err = &sentError{why}
	}
	l.trouble().end(err, why)
	l.result = Result{ID: l.id, Err: l.failed}
	l.group.answered()
}

// settle takes the outcome of one more attempt.
func (l *line) settle(r Result, err error) {
	if err != nil {
		l.trouble().add(err)
		r.Err = l.failed
	}
	l.result = r
}

func (l *line) trouble() *callError {
	if l.failed == nil {
		l.failed = &callError{method: l.verb, about: l.id}
		if l.receipt != "" {
			l.failed.about = l.receipt
		}
	}
	return l.failed
}

// await waits until all lines of the group are answered, or ctx ends. In the second case the lines without an answer
// get ctx's error, left is true, and a lane may still hold such lines.
func (g *group) await(ctx context.Context, lines []*line) (left bool) {
	select {
	case <-g.done:
		return false
	case <-ctx.Done():
	}
	for _, l := range lines {
		l.leave(ctx.Err())
	}
	<-g.done // waits for an answer that is just being written
	return true
}

// waiter is one ordinary call that waits for its line's answer.
type waiter struct {
	c     *conn
	line  line
	group group
	timer *time.Timer // of the call
}

// newWaiter begins a call about a task. The caller appends the line to line.data.
func (c *conn) newWaiter(verb, id string) *waiter {
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
