package belfry

import (
	"context"
	"fmt"
	"time"

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

// Replace is one batch: a schedule of an id that is there replaces its task.
func (c *caller) Replace(ctx context.Context, tasks []subject.Task) error {
	return c.ScheduleBatch(ctx, tasks)
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

// concurrency is how many tasks a consumer has at once. A handler does nothing here, so what bounds it is what is under
// way, as the number of messages is that other services let a consumer have; 1000 is what a lease call takes at most.
const concurrency = 1000

// Consume runs a handler for each task, as a program does.
func (c *caller) Consume(ctx context.Context, got func(id string, at time.Time)) error {
	return c.client.Consume(ctx, c.queue, client.ConsumeOptions{Concurrency: concurrency},
		func(_ context.Context, task *client.Leased) error {
			got(task.ID, time.Now())
			return nil
		})
}
