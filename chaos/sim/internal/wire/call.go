package wire

import (
	"context"
	"errors"
	"fmt"
	"time"
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
