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
)

// got takes an arrival.
type got = func(id string, at time.Time)

// consume starts so many consumers. The function that it returns ends them, and tells why one has ended before.
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
			defer cancel() // one that fails ends the others
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

// errEnded stands for the reason of a consumer that gave none.
var errEnded = errors.New("it ended")

// retryPause is between the tries of who goes on through a failure.
const retryPause = 10 * time.Millisecond

// consumeThrough starts consumers that begin anew when they fail, as a program does whose service comes back.
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
				_ = sleepUntil(ctx, time.Now().Add(retryPause)) // the loop sees that the context has ended
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
