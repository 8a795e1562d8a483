package client

import (
	"context"
	"sync/atomic"
)

// line is one operation on its way in a request with others. Who waits for it owns it, but for the time in which it is
// with a lane.
type line struct {
	data    []byte // in JSON, with its end
	verb    string
	id      string // of its task
	receipt string // of a lease that it settles

	shard  *shard // where its task lives; nil: not known
	group  *group
	state  atomic.Int32
	result Result
	failed *callError // what its attempts so far came to; nil: none has failed
}

// Where a line is while it is with a lane. Whoever changes it from waiting or sent to answered gives its answer, and
// only that one touches its result.
const (
	lineWaiting int32 = iota
	lineSent
	lineAnswered
)

// group is who waits for some lines at once.
type group struct {
	left atomic.Int32  // lines without an answer
	done chan struct{} // capacity 1: filled when left comes to 0
}

func (g *group) answered() {
	if g.left.Add(-1) == 0 {
		g.done <- struct{}{}
	}
}

// answer gives the answer to a line that was sent, unless its caller has left.
func (l *line) answer(r Result, err error) {
	if l.state.CompareAndSwap(lineSent, lineAnswered) {
		l.settle(r, err)
		l.group.answered()
	}
}

// leave takes a line away from its lane because of why, unless it was answered meanwhile.
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

// settle takes what one more attempt came to.
func (l *line) settle(r Result, err error) {
	if err != nil {
		l.trouble().add(err)
		r.Err = l.failed
	}
	l.result = r
}

func (l *line) trouble() *callError {
	if l.failed == nil {
		l.failed = &callError{method: l.verb, path: l.id}
		if l.receipt != "" {
			l.failed.path = l.receipt
		}
	}
	return l.failed
}

// await waits until all lines of the group are answered, or ctx ends; then those without an answer get its end for one.
// It tells whether that was so: a lane may still hold such lines.
func (g *group) await(ctx context.Context, lines []*line) (left bool) {
	select {
	case <-g.done:
		return false
	case <-ctx.Done():
	}
	for _, l := range lines {
		l.leave(ctx.Err())
	}
	<-g.done // an answer that came at this moment is written first
	return true
}
