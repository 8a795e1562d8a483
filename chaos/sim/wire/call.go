package wire

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Errors of a call between nodes.
var (
	// ErrNotSent: it was certainly not carried out.
	ErrNotSent = errors.New("the call was not sent")
	// ErrLost: it may have been.
	ErrLost = errors.New("the call's answer is lost")
)

// longestCall bounds calls whose context does not end.
const longestCall = time.Hour

// Call has another process do something, and returns what it came to. Its context ends with the caller's and with that
// process.
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
		return none, fmt.Errorf("%w: %w", ErrNotSent, from.net.refused())
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

// wait is for what never comes.
func (h *Host) wait(ctx context.Context) error {
	select {
	case <-h.down:
		return fmt.Errorf("%w: %w", ErrLost, ErrDown)
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", ErrLost, context.Cause(ctx))
	}
}

// perform does it in the other process, if that wakes and lives.
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
