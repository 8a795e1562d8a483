package wire

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Stream is one end of a connection that carries messages both ways, in order. A message that is lost breaks it after a
// while: what came before has arrived, and nothing after will.
type Stream[In, Out any] struct {
	ctx context.Context // of the connection
	in  <-chan In
	out chan<- Out
}

// streamRoom is how many messages may be under way in each direction.
const streamRoom = 64

// errBroken is how a connection ends that was not ended in order.
var errBroken = errors.New("the connection is broken")

// Dial opens a connection, and has the other process serve its end. It ends with ctx, with either process, when serve
// returns, or when a message is lost; that is noticed after patience.
func Dial[Req, Rep any](ctx context.Context, from *Host, to string, patience time.Duration,
	serve func(at *Host, s *Stream[Req, Rep])) (*Stream[Rep, Req], error) {
	if !from.Gate() {
		return nil, ErrDown
	}
	at := from.net.host(to)
	there := from.net.pass(from.name, to, false)
	switch {
	case there.lost:
		if !Sleep(ctx, patience) {
			return nil, context.Cause(ctx)
		}
		return nil, ErrTimeout
	case !from.Sleep(there.delay):
		return nil, ErrDown
	case at == nil:
		return nil, from.net.refused()
	}
	ctx, end := context.WithCancelCause(ctx)
	fromEnds := context.AfterFunc(from.life, func() { end(ErrDown) })
	atEnds := context.AfterFunc(at.life, func() { end(ErrReset) })
	context.AfterFunc(ctx, func() { fromEnds(); atEnds() })
	asking, asked := make(chan Req, streamRoom), make(chan Req, streamRoom)
	answering, answered := make(chan Rep, streamRoom), make(chan Rep, streamRoom)
	go carry(ctx, end, from, at, patience, asking, asked)
	go carry(ctx, end, at, from, patience, answering, answered)
	go func() {
		if at.Gate() {
			serve(at, &Stream[Req, Rep]{ctx, asked, answering})
		}
		if at.isDown() {
			end(ErrReset)
		}
		end(errBroken)
	}()
	return &Stream[Rep, Req]{ctx, answered, asking}, nil
}

// carry takes messages from one end to the other.
func carry[T any](ctx context.Context, end context.CancelCauseFunc, from, to *Host, patience time.Duration,
	sent <-chan T, arrived chan<- T) {
	for {
		var msg T
		select {
		case msg = <-sent:
		case <-ctx.Done():
			return
		}
		p := from.net.pass(from.name, to.name, false)
		if p.lost {
			Sleep(ctx, patience)
			end(fmt.Errorf("%w: %w", errBroken, ErrTimeout))
			return
		}
		if !Sleep(ctx, p.delay) || !to.Gate() {
			return
		}
		select {
		case arrived <- msg:
		case <-ctx.Done():
			return
		}
	}
}

// Sleep passes time, and tells whether ctx goes on.
func Sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// Context is the connection's.
func (s *Stream[In, Out]) Context() context.Context { return s.ctx }

// Send sends a message, which must not be changed any more. That it was sent does not mean that it arrives.
func (s *Stream[In, Out]) Send(msg Out) error {
	select {
	case <-s.ctx.Done():
		return context.Cause(s.ctx)
	case s.out <- msg:
		return nil
	}
}

// Recv waits for a message.
func (s *Stream[In, Out]) Recv() (In, error) {
	select {
	case msg := <-s.in:
		return msg, nil
	case <-s.ctx.Done():
		var none In
		return none, context.Cause(s.ctx)
	}
}
