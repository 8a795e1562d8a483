package client

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"
)

// Handler handles one task. Nil acknowledges the task. An error fails the attempt, so that the task is retried after
// its backoff, or becomes a dead letter after its last attempt; see also RetryIn and ErrRelease. A panic counts as an
// error. The task belongs to the handler alone.
//
// The handler's context ends in two cases. First, the lease is lost (the cause is ErrLeaseLost): another consumer may
// have the task, or the task was scheduled anew, perhaps by the handler itself. Second, the consumer stops and its
// grace is over: a handler that then returns the context's error gives its task back.
type Handler func(ctx context.Context, task *Leased) error

// ConsumeOptions are the settings of Consume. Zero fields are the defaults.
type ConsumeOptions struct {
	Concurrency int // handlers that run at once, at most 10000; 0: 64
	// Lease is the length of a task's lease, which is extended while the handler runs. A task waits that long if its
	// consumer has died, or if it was on its way from a node that has died. 0: 10 s.
	Lease  time.Duration
	Grace  time.Duration // how long handlers may continue after a stop; 0: 30 s
	Logger *slog.Logger  // for errors that no caller gets; nil: slog.Default()
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
	// ErrLeaseLost is the cause of a handler's ended context when the lease has ended. Another consumer may have the task.
	ErrLeaseLost = errors.New("the lease is lost")
	// ErrRelease as a handler's error gives the task back: it is due at once, and the attempt is not counted.
	ErrRelease = errors.New("the task is given back")

	errGraceOver = errors.New("the consumer stops, and its grace is over")
)

// RetryIn returns err with a delay until the next attempt, in place of the backoff.
func RetryIn(delay time.Duration, err error) error { return &retryIn{err, delay} }

type retryIn struct {
	error
	delay time.Duration
}

func (e *retryIn) Unwrap() error { return e.error }

// Consume calls handle for the tasks of a queue that is pulled, as they come due, until ctx ends. Then it takes no more
// tasks, running handlers have ConsumeOptions.Grace to end, and Consume returns nil once all outcomes are settled.
// Failures of nodes are waited out, at any address.
//
// Consume returns an error if the service refuses the queue or the options permanently, or if handlers still run when
// the grace is over. The tasks of those handlers return to the queue when their leases end.
func (c *Client) Consume(ctx context.Context, queue string, o ConsumeOptions, handle Handler) error {
	o = o.withDefaults()
	if err := o.validate(); err != nil {
		return fmt.Errorf("consume %s: %w", queue, err)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(c.conn.ctx, cancel)() // Close stops consumers too
	k := newConsumer(ctx, c.conn, queue, o, handle)
	err := k.stream(ctx)
	if err = errors.Join(err, k.stop()); err != nil {
		return fmt.Errorf("consume %s: %w", queue, err)
	}
	return nil
}
