package belfry

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/belfryhq/belfry/bench/subject"
	"github.com/belfryhq/belfry/client"
)

// caller calls through the client that all callers share.
type caller struct {
	*service
	queue string
}

// Close leaves the shared client open.
func (c *caller) Close() error { return nil }

func (c *caller) task(t subject.Task) client.Task {
	task := client.Task{ID: t.ID, FireAt: t.Due, Payload: t.Payload, Target: c.target.Load()}
	if c.queue != defaultQueue {
		task.Queue = c.queue
	}
	return task
}

// Schedule is one ordinary call.
func (c *caller) Schedule(ctx context.Context, task subject.Task) error {
	_, err := c.client.Schedule(ctx, c.task(task))
	return err
}

// ScheduleBatch is one batch.
func (c *caller) ScheduleBatch(ctx context.Context, tasks []subject.Task) error {
	for result := range c.client.ScheduleMany(ctx, func(yield func(client.Task) bool) {
		for _, task := range tasks {
			if !yield(c.task(task)) {
				return
			}
		}
	}) {
		if result.Err != nil {
			return result.Err
		}
	}
	return nil
}

// Cancel is one ordinary call.
func (c *caller) Cancel(ctx context.Context, id string) error {
	outcome, err := c.client.Cancel(ctx, id)
	if err != nil {
		return err
	}
	return mustBeCancelled(id, outcome)
}

// CancelBatch is one batch.
func (c *caller) CancelBatch(ctx context.Context, ids []string) error {
	for result := range c.client.Batch(ctx, func(yield func(client.Op) bool) {
		for _, id := range ids {
			if !yield(client.CancelOp(id)) {
				return
			}
		}
	}) {
		if result.Err != nil {
			return result.Err
		}
		if err := mustBeCancelled(result.ID, result.Outcome); err != nil {
			return err
		}
	}
	return nil
}

func mustBeCancelled(id string, outcome client.Outcome) error {
	if outcome != client.OutcomeCancelled {
		return fmt.Errorf("cancelling %s came to %q", id, outcome)
	}
	return nil
}

// Touch starts the task's delay again, which the service counts from when it hears of it.
func (c *caller) Touch(ctx context.Context, id string, due time.Time) error {
	_, err := c.client.Touch(ctx, id, client.Touch{Delay: time.Until(due)})
	return err
}

// What a consumer asks for at once, and how long it waits for the first.
const (
	leaseMax  = 1000
	leaseWait = 20 * time.Second
)

// Consume leases tasks, and acknowledges those that it has while it leases the next.
func (c *caller) Consume(ctx context.Context, got func(id string, at time.Time)) error {
	receipts := make(chan []string, 64)
	group, ctx := errgroup.WithContext(ctx) // what cannot be acknowledged ends it
	group.Go(func() error {
		defer close(receipts)
		return c.lease(ctx, got, receipts)
	})
	group.Go(func() error { return c.settle(receipts) })
	return group.Wait()
}

func (c *caller) lease(ctx context.Context, got func(id string, at time.Time), receipts chan<- []string) error {
	for ctx.Err() == nil {
		tasks, err := c.client.Lease(ctx, c.queue, client.Demand{Max: leaseMax, Wait: leaseWait})
		if err != nil {
			return subject.Ended(ctx, err)
		}
		at := time.Now()
		var batch []string
		for _, task := range tasks {
			got(task.ID, at)
			batch = append(batch, task.Receipt)
		}
		select {
		case receipts <- batch:
		case <-ctx.Done():
			return nil
		}
	}
	return nil
}

// settle acknowledges in each call all that waits, also after the consumer was told to end.
func (c *caller) settle(receipts <-chan []string) error {
	for batch := range receipts {
		for len(batch) < leaseMax && len(receipts) > 0 {
			batch = append(batch, <-receipts...)
		}
		for _, s := range c.client.Settle(context.Background(), c.queue, client.Settlement{Ack: batch}) {
			if s.Err != nil {
				return fmt.Errorf("acknowledging %s: %w", s.ID, s.Err)
			}
		}
	}
	return nil
}
