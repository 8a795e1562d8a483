package client

import (
	"context"
	"sync/atomic"
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
		l.failed = &callError{method: l.verb, path: l.id}
		if l.receipt != "" {
			l.failed.path = l.receipt
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
