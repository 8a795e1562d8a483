package etcd

import (
	"context"
	"fmt"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/belfryhq/belfry/bench/subject"
)

const prefix = "tasks/" // of the keys

type caller struct {
	client   *clientv3.Client
	payloads *sync.Map
}

func value(task subject.Task) string {
	return task.Due.UTC().Format(time.RFC3339Nano) + " " + string(task.Payload)
}

func (c *caller) Schedule(ctx context.Context, task subject.Task) error {
	_, err := c.client.Put(ctx, prefix+task.ID, value(task))
	if err == nil {
		c.payloads.Store(task.ID, task.Payload)
	}
	return err
}

func (c *caller) ScheduleBatch(ctx context.Context, tasks []subject.Task) error {
	puts := make([]clientv3.Op, len(tasks))
	for i, task := range tasks {
		puts[i] = clientv3.OpPut(prefix+task.ID, value(task))
	}
	if _, err := c.client.Txn(ctx).Then(puts...).Commit(); err != nil {
		return err
	}
	for _, task := range tasks {
		c.payloads.Store(task.ID, task.Payload)
	}
	return nil
}

// Touch puts the task again.
func (c *caller) Touch(ctx context.Context, id string, due time.Time) error {
	payload, ok := c.payloads.Load(id)
	if !ok {
		return notThere(id)
	}
	return c.Schedule(ctx, subject.Task{ID: id, Due: due, Payload: payload.([]byte)})
}

func (c *caller) Cancel(ctx context.Context, id string) error {
	answer, err := c.client.Delete(ctx, prefix+id)
	if err != nil {
		return err
	}
	return c.deleted(id, answer.Deleted)
}

func (c *caller) CancelBatch(ctx context.Context, ids []string) error {
	deletes := make([]clientv3.Op, len(ids))
	for i, id := range ids {
		deletes[i] = clientv3.OpDelete(prefix + id)
	}
	answer, err := c.client.Txn(ctx).Then(deletes...).Commit()
	if err != nil {
		return err
	}
	for i, id := range ids {
		if err := c.deleted(id, answer.Responses[i].GetResponseDeleteRange().GetDeleted()); err != nil {
			return err
		}
	}
	return nil
}

// deleted forgets a task after the deletion of a number of keys. It returns an error for none.
func (c *caller) deleted(id string, keys int64) error {
	if keys == 0 {
		return notThere(id)
	}
	c.payloads.Delete(id)
	return nil
}

func notThere(id string) error { return fmt.Errorf("task %s is not there", id) }

// Close leaves the shared client open.
func (*caller) Close() error { return nil }
