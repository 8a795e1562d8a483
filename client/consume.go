package client

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"
)

// Handler does what a task is there for. Nil acknowledges the task; an error fails the attempt, so that the task is
// retried after its backoff, or becomes a dead letter after its last attempt; see also RetryIn and ErrRelease. A
// panic is an error. The task is the handler's alone. Its context ends when the lease is lost (ErrLeaseLost is its
// cause): then somebody else may have the task, or it was scheduled anew, also by the handler itself; or when the
// consumer stops and its grace is over: then one that returns the context's error gives its task back.
type Handler func(ctx context.Context, task *Leased) error

// ConsumeOptions say how a queue is consumed. Zero fields are the defaults.
type ConsumeOptions struct {
	Concurrency int // handlers at work at once, at most 10000; 0: 64
	// Lease is extended while a handler is at work. It is how long a task waits whose consumer has died, or that was on
	// its way from a node that has; 0: 10 s.
	Lease  time.Duration
	Grace  time.Duration // how long handlers may go on when the consumer is to stop; 0: 30 s
	Logger *slog.Logger  // what goes wrong and is no caller's to know; nil: slog.Default()
}

const (
	defaultConcurrency = 64
	maxConcurrency     = 10_000
	defaultLease       = 10 * time.Second
	minLease           = 100 * time.Millisecond
	defaultGrace       = 30 * time.Second
)

func (o ConsumeOptions) withDefaults() ConsumeOptions {
	if o.Concurrency == 0 {
		o.Concurrency = defaultConcurrency
	}
	if o.Lease == 0 {
		o.Lease = defaultLease
	}
	if o.Grace == 0 {
		o.Grace = defaultGrace
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	return o
}

func (o ConsumeOptions) validate() error {
	switch {
	case o.Concurrency < 0 || o.Concurrency > maxConcurrency:
		return fmt.Errorf("ConsumeOptions.Concurrency is %d, the limit is %d", o.Concurrency, maxConcurrency)
	case o.Lease < minLease:
		return fmt.Errorf("ConsumeOptions.Lease is %v, the least is %v", o.Lease, minLease)
	case o.Grace < 0:
		return errors.New("ConsumeOptions.Grace is negative")
	}
	return nil
}

var (
	// ErrLeaseLost is why a handler's context ended: its lease has, and the task may be somebody else's.
	ErrLeaseLost = errors.New("the lease is lost")
	// ErrRelease from a handler gives the task back: it is due at once, and the attempt is not counted.
	ErrRelease = errors.New("the task is given back")

	errGraceOver = errors.New("the consumer stops, and its grace is over")
)

// RetryIn has a handler's error tell when the task is to be tried again, in place of the backoff.
func RetryIn(delay time.Duration, err error) error { return &retryIn{err, delay} }

type retryIn struct {
	error
	delay time.Duration
}

func (e *retryIn) Unwrap() error { return e.error }

// Consume has handle do the tasks of a queue that is pulled, as they come due, until ctx ends. Then no more are taken,
// those whose handlers are at work have ConsumeOptions.Grace to end, and all outcomes are settled before it returns
// nil. It returns an error if the service refuses the queue or the options for good, or if handlers are still at work
// when the grace is over; their tasks come back when their leases end. Trouble with nodes is waited out, at any
// address.
func (c *Client) Consume(ctx context.Context, queue string, o ConsumeOptions, handle Handler) error {
	o = o.withDefaults()
	if err := o.validate(); err != nil {
		return fmt.Errorf("consume %s: %w", queue, err)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(c.ctx, cancel)() // Close stops consumers as well
	k := newConsumer(ctx, c, queue, o, handle)
	err := k.stream(ctx)
	if err = errors.Join(err, k.stop()); err != nil {
		return fmt.Errorf("consume %s: %w", queue, err)
	}
	return nil
}
