package workload

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
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
	return consumeBy(ctx, callers, got), nil
}

func consumeBy(ctx context.Context, callers []subject.Caller, got got) (stop func() error) {
	ctx, cancel := context.WithCancel(ctx)
	var group errgroup.Group
	for _, caller := range callers {
		group.Go(func() error {
			defer cancel() // one failed consumer ends the others
			err := caller.(subject.Consumer).Consume(ctx, got)
			if ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("a consumer ended by itself: %w", errors.Join(errEnded, err))
		})
	}
	return func() error {
		cancel()
		return group.Wait()
	}
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
	caller, err := r.caller(ctx)
	if err != nil {
		return err
	}
	return errors.Join(caller.(subject.Consumer).Consume(ctx, got), caller.Close())
}

// receive starts a receiver that answers at once at any path but badPath, and makes the service push to it from now on.
// stop closes the receiver.
func (r *run) receive(ctx context.Context, got got) (stop func() error, err error) {
	url, stop, err := listen(ctx, got)
	if err != nil {
		return nil, err
	}
	if err := r.service.(subject.Pusher).PushTo(url); err != nil {
		return nil, errors.Join(err, stop())
	}
	return stop, nil
}

// listen starts a receiver on loopback. stop closes it.
func listen(ctx context.Context, got got) (url string, stop func() error, err error) {
	return subject.Serve(ctx, receiver(got))
}

func receiver(got got) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/"+badPath {
			answerBadly(w, r)
			return
		}
		got(r.Header.Get("Ce-Subject"), time.Now())
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			w.WriteHeader(http.StatusBadRequest)
		}
	})
}

// arrivals starts consumers, or a receiver of webhooks. stop ends them.
func (r *run) arrivals(ctx context.Context, push bool, got got) (stop func() error, err error) {
	if push {
		return r.receive(ctx, got)
	}
	return r.consume(ctx, r.sizes.Consumers, got)
}
