// Package bench measures a cluster from outside: how long calls take, and how late tasks arrive.
//
//	plan ──▶ callers ──Schedule, Cancel──▶ cluster ──Consume or webhook──▶ receiver
//	            └────────────▶ ledger ◀────────────────────────────────────────┘
//
// The figures are made as follows:
//   - Calls begin at planned times, whether or not earlier ones have ended. The latency of a call counts from its
//     planned time. A stall thus counts in all calls that it delays (no coordinated omission). At the rate 0 there is
//     no plan: each caller calls again once its last call has ended, and the latency is that of the call.
//   - Every task is due between minDelay and maxDelay after the call, so that a slow call makes no task late.
//   - Lateness is the time between the due time and the receipt. The due time is the cluster's, the receipt is this
//     machine's: Clock estimates the difference of the clocks, with a bound of its error. Lateness includes the way to
//     the receiver.
//   - Lost is a task whose call succeeded, that was not cancelled, and that has not arrived Grace after its due time. A
//     call whose outcome is unknown counts as failed, and its task is neither lost nor wrong if it arrives.
//   - Percentiles are exact: all samples are kept, 8 bytes each.
//
// All tasks are in one queue of a random name, which Run empties and removes when it ends, also by a signal.
package bench

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/internal/loop"
	"github.com/belfryhq/belfry/internal/wait"
)

// Config describes a measurement.
type Config struct {
	Calls    *client.Client // schedules and cancels
	Receiver *client.Client // consumes, and cleans up

	Queue   string  // in which there must be nothing; see NewQueue
	Tasks   int     // tasks to schedule
	Rate    float64 // tasks a second; 0: as fast as the callers can
	Callers int     // calls under way at once
	Payload int     // bytes of a task's payload
	Webhook string  // http URL of this machine by which nodes deliver; empty: tasks are leased
	Listen  string  // address to listen at for Webhook; empty: the port of Webhook, at all addresses

	Grace time.Duration // the time after its due time from which on a task counts as lost; 0: 10 s
}

const (
	minDelay    = 1 * time.Second
	maxDelay    = 4 * time.Second
	cancelDelay = 30 * time.Second // of the tasks to cancel
	cancelEvery = 10               // every tenth task is cancelled
	cancelAfter = 1 * time.Second  // after its planned call
	keepDone    = time.Minute      // how long the finished tasks can be read
	cleanupTime = 30 * time.Second

	defaultGrace = 10 * time.Second
	maxTasks     = 10_000_000
)

// NewQueue returns a random name of a queue.
func NewQueue() string { return "belfry-bench-" + strings.ToLower(rand.Text()[:8]) }

// Validate returns an error for settings without a meaning.
func (c *Config) Validate() error {
	switch {
	case c.Tasks < 1 || c.Tasks > maxTasks:
		return errors.New("the number of tasks is not within 1 to 10000000")
	case c.Rate < 0:
		return errors.New("the rate is negative")
	case c.Callers < 1 || c.Callers > 10_000:
		return errors.New("the number of clients is not within 1 to 10000")
	case c.Payload < 0 || c.Payload > 64<<10:
		return errors.New("the payload is not within 0 to 65536 bytes")
	case c.Webhook != "":
		_, err := c.listenAddr()
		return err
	}
	return nil
}

// run is one measurement.
type run struct {
	Config
	payload json.RawMessage
	clock   Clock
	ledger  *ledger
	began   time.Time
}

// Run measures a cluster. It removes its tasks and its queue, also when the context ends: then the report covers the
// part that was done. The report is nil if the measurement could not begin.
func Run(ctx context.Context, cfg Config) (report *Report, err error) {
	r := &run{Config: cfg, payload: json.RawMessage(`"` + strings.Repeat("x", max(cfg.Payload-2, 0)) + `"`)}
	if r.Grace == 0 {
		r.Grace = defaultGrace
	}
	if err := r.checkQueue(ctx); err != nil {
		return nil, err
	}
	defer func() { // the queue is this run's from here on
		left, cleanErr := r.cleanUp(context.WithoutCancel(ctx))
		if cleanErr != nil {
			cleanErr = fmt.Errorf("clean up queue %s: %w", r.Queue, cleanErr)
		}
		if report != nil {
			report.Removed = left
		}
		err = errors.Join(err, cleanErr)
	}()
	if err := r.prepare(ctx); err != nil {
		return nil, err
	}
	return r.measure(ctx)
}

// checkQueue returns errTaken if the queue is there already.
func (r *run) checkQueue(ctx context.Context) error {
	q, err := r.Receiver.Queue(ctx, r.Queue)
	if errors.Is(err, client.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	c := q.Counts
	if c != nil && *c == (client.QueueCounts{}) && q.Target == nil && !q.Paused && q.MaxInFlight == 0 {
		return nil // the answer for a queue that is not there
	}
	return fmt.Errorf("queue %s: %w", r.Queue, errTaken)
}

// prepare sets the policy of the queue and reads the clock.
func (r *run) prepare(ctx context.Context) error {
	policy := client.Queue{Name: r.Queue, KeepDone: keepDone}
	if r.Webhook != "" {
		policy.Target = &client.Target{URL: r.Webhook}
	}
	if _, err := r.Receiver.PutQueue(ctx, policy); err != nil {
		return err
	}
	clock, err := r.readClock(ctx)
	r.clock, r.ledger = clock, newLedger(r.Tasks, clock.Error)
	return err
}

// measure makes the calls and waits for the tasks.
func (r *run) measure(ctx context.Context) (*Report, error) {
	receiving, stop := context.WithCancel(ctx)
	defer stop()
	loading, stopLoad := context.WithCancelCause(ctx)
	defer stopLoad(nil)
	ended := make(chan struct{})
	if err := r.receive(receiving, func(err error) {
		stopLoad(fmt.Errorf("the receiver has ended: %w", err))
		close(ended)
	}); err != nil {
		return nil, err
	}
	r.began = time.Now()
	r.load(loading)
	took := time.Since(r.began)
	r.ledger.loaded()
	last := time.NewTimer(maxDelay + r.Grace)
	defer last.Stop()
	select {
	case <-r.ledger.changed:
	case <-last.C:
	case <-loading.Done():
	}
	var err error
	interrupted := loading.Err() != nil
	if interrupted && ctx.Err() == nil {
		err = context.Cause(loading)
	}
	stop()
	<-ended
	return r.report(took, interrupted), err
}

// load makes the planned calls. It ends early with the context only, whose owner reports that.
func (r *run) load(ctx context.Context) {
	ops, callers := r.plan(), make([]struct{}, r.Callers)
	call := func(ctx context.Context, _ struct{}, i int) error {
		r.call(ctx, ops[i])
		return ctx.Err()
	}
	if r.Rate == 0 {
		_, _ = loop.Closed(ctx, callers, len(ops), loop.Forever, call)
		return
	}
	_, _ = loop.Open(ctx, callers, r.began, len(ops), func(i int) time.Duration { return ops[i].at }, call)
}

// cleanUpPause is the time between two tries of cleanUp.
const cleanUpPause = 100 * time.Millisecond

// cleanUp removes the unfinished tasks, the dead letters and the policy of the queue. It returns the number of tasks
// that were left. It tries again for a while: a call that was under way at an interruption may still make a task, and a
// cancelled attempt lasts until it ends.
func (r *run) cleanUp(ctx context.Context) (removed int, err error) {
	ctx, cancel := context.WithTimeout(ctx, cleanupTime)
	defer cancel()
	gone := map[string]bool{}
	for {
		if err := r.empty(ctx, gone); err != nil {
			return len(gone), err
		}
		err := r.Receiver.DeleteQueue(ctx, r.Queue)
		switch {
		case err == nil, errors.Is(err, client.ErrNotFound):
			return len(gone), nil
		case !errors.Is(err, client.ErrConflict):
			return len(gone), err
		}
		if !wait.For(ctx, cleanUpPause) {
			return len(gone), err
		}
	}
}

// empty removes the unfinished tasks and the dead letters of the queue, and adds the tasks to gone.
func (r *run) empty(ctx context.Context, gone map[string]bool) (err error) {
	var ids []string
	unfinished := []client.State{client.StateScheduled, client.StateReady, client.StateFiring, client.StateRetrying}
	for task, err := range r.Receiver.List(ctx, client.Filter{Queue: r.Queue, States: unfinished}) {
		if err != nil {
			return err
		}
		ids = append(ids, task.ID)
	}
	ops := func(yield func(client.Op) bool) {
		for _, id := range ids {
			if !yield(client.CancelOp(id)) {
				return
			}
		}
	}
	for result := range r.Receiver.Batch(ctx, ops) {
		if result.Err != nil && !errors.Is(result.Err, client.ErrNotFound) {
			err = errors.Join(err, result.Err)
			continue
		}
		gone[result.ID] = true
	}
	if _, dropErr := r.Receiver.DropDead(ctx, r.Queue, client.DeadFilter{}); dropErr != nil {
		err = errors.Join(err, dropErr)
	}
	return err
}
