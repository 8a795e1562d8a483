package workload

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/belfryhq/belfry/bench/subject"
	"github.com/belfryhq/belfry/internal/loop"
)

// got receives an arrival.
type got = func(id string, at time.Time)

// consume starts n consumers. The returned stop ends them, and reports why a consumer ended early.
func (r *run) consume(ctx context.Context, n int, got got) (stop func() error, err error) {
	callers, err := r.callers(ctx, n)
	if err != nil {
		return nil, err
	}
	return consumeBy(ctx, callers, got)
}

func consumeBy(ctx context.Context, callers []subject.Caller, got got) (stop func() error, err error) {
	ctx, cancel := context.WithCancel(ctx)
	var group errgroup.Group
	for _, caller := range callers {
		consumer, err := able[subject.Consumer](caller, "be consumed from")
		if err != nil {
			cancel()
			return nil, errors.Join(err, group.Wait())
		}
		group.Go(func() error {
			defer cancel() // one failed consumer ends the others
			err := consumer.Consume(ctx, got)
			if ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("a consumer ended by itself: %w", errors.Join(errEnded, err))
		})
	}
	return func() error {
		cancel()
		return group.Wait()
	}, nil
}

// errEnded is the reason of a consumer that ended without an error.
var errEnded = errors.New("it ended")

// retryPause is the pause between two tries.
const retryPause = 10 * time.Millisecond

// consumeThrough starts consumers that restart after a failure, as a program does whose service comes back.
func (r *run) consumeThrough(ctx context.Context, n int, got got) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var group sync.WaitGroup
	var failures atomic.Int64
	for range n {
		group.Go(func() {
			for ctx.Err() == nil {
				if err := r.consumeOnce(ctx, got); err != nil && ctx.Err() == nil && failures.Add(1) == 1 {
					r.say("a consumer failed, and begins anew: %v", err)
				}
				_ = loop.SleepUntil(ctx, time.Now().Add(retryPause)) // the loop checks the context
			}
		})
	}
	return func() {
		cancel()
		group.Wait()
		r.say("consumers failed %d times", failures.Load())
	}
}

func (r *run) consumeOnce(ctx context.Context, got got) error {
	caller, err := r.service.Caller(ctx)
	if err != nil {
		return err
	}
	consumer, err := able[subject.Consumer](caller, "be consumed from")
	if err == nil {
		err = consumer.Consume(ctx, got)
	}
	return errors.Join(err, caller.Close())
}
