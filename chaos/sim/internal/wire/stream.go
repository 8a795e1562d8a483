package wire

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/belfryhq/belfry/internal/wait"
)

// The errors of a call between nodes.
var (
	// ErrNotSent says that the call was certainly not carried out.
	ErrNotSent = errors.New("the call was not sent")
	// ErrLost says that the call may have been carried out.
	ErrLost = errors.New("the call's answer is lost")
)

// longestCall bounds a call whose context has no deadline.
const longestCall = time.Hour

// Call runs do in another process and returns its result. The context of do ends with the caller's context and with
// that process. An error wraps ErrNotSent or ErrLost.
func Call[T any](ctx context.Context, from *Host, to string, do func(ctx context.Context, at *Host) T) (T, error) {
	var none T
	if !from.Gate() {
		return none, fmt.Errorf("%w: %w", ErrNotSent, ErrDown)
	}
	ctx, cancel := context.WithTimeout(ctx, longestCall)
	defer cancel()
	at := from.net.host(to)
	there := from.net.pass(from.name, to, false)
	switch {
	case there.lost:
		return none, from.wait(ctx)
	case !from.Sleep(there.delay):
		return none, fmt.Errorf("%w: %w", ErrNotSent, ErrDown)
	case at == nil:
		return none, fmt.Errorf("%w: %w", ErrNotSent, ErrRefused)
	}
	answers := make(chan T, 1)
	go perform(ctx, at, do, answers)
	select {
	case answer := <-answers:
		return comeBack(ctx, from, at, answer)
	case <-at.down:
		return none, fmt.Errorf("%w: %w", ErrLost, ErrReset)
	case <-from.down:
		return none, fmt.Errorf("%w: %w", ErrLost, ErrDown)
	case <-ctx.Done():
		return none, fmt.Errorf("%w: %w", ErrLost, context.Cause(ctx))
	}
}

// wait waits for an answer that never comes, until ctx or the process ends. It returns the error of the call.
func (h *Host) wait(ctx context.Context) error {
	select {
	case <-h.down:
		return fmt.Errorf("%w: %w", ErrLost, ErrDown)
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", ErrLost, context.Cause(ctx))
	}
}

// perform runs do in the other process and sends its result to answers, unless that process ends before it wakes.
func perform[T any](ctx context.Context, at *Host, do func(context.Context, *Host) T, answers chan<- T) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(at.life, cancel)()
	if at.Gate() {
		answers <- do(ctx, at)
	}
}

func comeBack[T any](ctx context.Context, from, at *Host, answer T) (T, error) {
	var none T
	if !at.Gate() {
		return none, fmt.Errorf("%w: %w", ErrLost, ErrReset)
	}
	back := from.net.pass(at.name, from.name, false)
	if back.lost {
		return none, from.wait(ctx)
	}
	if !from.Sleep(back.delay) || !from.Gate() {
		return none, fmt.Errorf("%w: %w", ErrLost, ErrDown)
	}
	return answer, nil
}

// Stream is one end of a connection that carries messages both ways, in order. A lost message breaks the connection
// after a while: messages before it have arrived, and none after it will.
type Stream[In, Out any] struct {
	ctx context.Context // ends with the connection
	in  <-chan In
	out chan<- Out
}

// streamRoom is how many messages may be under way in each direction.
const streamRoom = 64

// errBroken is the error of a connection that broke at a lost message or ended when serve returned.
var errBroken = errors.New("the connection is broken")

// Dial opens a connection and runs serve in the other process, on its end of the connection. The connection ends when
// ctx or either process ends or serve returns. It also ends when a message is lost, after patience.
func Dial[Req, Rep any](ctx context.Context, from *Host, to string, patience time.Duration,
	serve func(at *Host, s *Stream[Req, Rep])) (*Stream[Rep, Req], error) {
	if !from.Gate() {
		return nil, ErrDown
	}
	at := from.net.host(to)
	there := from.net.pass(from.name, to, false)
	switch {
	case there.lost:
		if !wait.For(ctx, patience) {
			return nil, context.Cause(ctx)
		}
		return nil, ErrTimeout
	case !from.Sleep(there.delay):
		return nil, ErrDown
	case at == nil:
		return nil, ErrRefused
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

// carry carries messages from one end to the other.
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
			wait.For(ctx, patience)
			end(fmt.Errorf("%w: %w", errBroken, ErrTimeout))
			return
		}
		if !wait.For(ctx, p.delay) || !to.Gate() {
			return
		}
		select {
		case arrived <- msg:
		case <-ctx.Done():
			return
		}
	}
}

// Context returns the context of the connection.
func (s *Stream[In, Out]) Context() context.Context { return s.ctx }

// Send sends a message. The caller must not change the message any more. A nil error does not mean that the message
// arrives.
func (s *Stream[In, Out]) Send(msg Out) error {
	select {
	case <-s.ctx.Done():
		return context.Cause(s.ctx)
	case s.out <- msg:
		return nil
	}
}

// Recv waits for the next message. It returns an error when the connection has ended.
func (s *Stream[In, Out]) Recv() (In, error) {
	select {
	case msg := <-s.in:
		return msg, nil
	case <-s.ctx.Done():
		var none In
		return none, context.Cause(s.ctx)
	}
}
