package belfry

import (
	"context"
	"fmt"
	"time"

	"github.com/belfryhq/belfry/bench/subject"
	"github.com/belfryhq/belfry/client"
)

// caller calls the cluster through the client that all callers share.
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

// Schedule schedules the task with one call.
func (c *caller) Schedule(ctx context.Context, task subject.Task) error {
	_, err := c.client.Schedule(ctx, c.task(task))
	return err
}

// ScheduleBatch schedules the tasks with one batch.
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

// Replace replaces the tasks with one batch. Scheduling an existing id replaces its task.
func (c *caller) Replace(ctx context.Context, tasks []subject.Task) error {
	return c.ScheduleBatch(ctx, tasks)
}

// Repeat stores the schedule with one call.
func (c *caller) Repeat(ctx context.Context, s subject.Schedule) error {
	_, err := c.client.PutSchedule(ctx, client.Schedule{
		ID: s.ID, Repeat: client.Repeat{Every: s.Every, Anchor: s.First, Start: s.First},
		Task: c.task(subject.Task{Payload: s.Payload}),
	})
	return err
}

// Cancel cancels the task with one call.
func (c *caller) Cancel(ctx context.Context, id string) error {
	outcome, err := c.client.Cancel(ctx, id)
	if err != nil {
		return err
	}
	return mustBeCancelled(id, outcome)
}

// CancelBatch cancels the tasks with one batch.
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

// Touch restarts the task's delay. The service counts the delay from the arrival of the call.
func (c *caller) Touch(ctx context.Context, id string, due time.Time) error {
	_, err := c.client.Touch(ctx, id, client.Touch{Delay: time.Until(due)})
	return err
}

// concurrency is the number of tasks that a consumer handles at once. A handler does nothing here, so the number bounds
// the tasks in flight, as the prefetch limit of other services does. A lease call returns at most 1000 tasks.
const concurrency = 1000

// Consume runs a handler for each task, as a program does.
func (c *caller) Consume(ctx context.Context, got func(id string, at time.Time)) error {
	return consume(ctx, c.client, c.queue, got)
}

func consume(ctx context.Context, by *client.Client, queue string, got func(id string, at time.Time)) error {
	return by.Consume(ctx, queue, client.ConsumeOptions{Concurrency: concurrency},
		func(_ context.Context, task *client.Leased) error {
			got(task.ID, time.Now())
			return nil
		})
}
