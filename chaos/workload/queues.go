package workload

import (
	"context"
	"errors"
	"fmt"

	"github.com/belfryhq/belfry/chaos/load"
	"github.com/belfryhq/belfry/client"
)

// The queues of a load.

func (c Config) pushQueue() string { return c.Prefix + "bulk-push" }
func (c Config) pullQueue() string { return c.Prefix + "bulk-pull" }

func (c Config) orderedQueue() string { return c.Prefix + "ordered" }

// Order makes the queue of Config.Groups, if there are any. It pushes the tasks of a group in order, one at a time.
func (l *Load) Order(ctx context.Context) error {
	if l.cfg.Groups == 0 {
		return nil
	}
	return l.putQueue(ctx, client.Queue{
		Name: l.cfg.orderedQueue(), Target: &client.Target{URL: l.cfg.Target}, FIFO: true, KeepDone: l.cfg.Kept,
	})
}

// Keep makes the queues of the scripts keep finished tasks for Config.Kept.
func (l *Load) Keep(ctx context.Context) error {
	return errors.Join(
		l.putQueue(ctx, client.Queue{Name: defaultQueue, KeepDone: l.cfg.Kept}),
		l.putQueue(ctx, client.Queue{Name: l.cfg.Queue, KeepDone: l.cfg.Kept}),
	)
}

// defaultQueue is the queue of tasks that name none.
const defaultQueue = "default"

// putBulkQueues creates the two queues of the bulk. One pushes tasks to the receiver, many in a request. Consumers
// pull the tasks of the other.
func (l *Load) putBulkQueues(ctx context.Context) error {
	pushed := client.Queue{
		Name: l.cfg.pushQueue(), Target: &client.Target{URL: l.cfg.Target}, BatchMax: bulkRequest, KeepDone: l.cfg.BulkKept,
		Retry: &client.Retry{MinBackoff: minBackoff, MaxBackoff: maxBackoff},
	}
	pulled := client.Queue{Name: l.cfg.pullQueue(), KeepDone: l.cfg.BulkKept}
	if err := l.putQueue(ctx, pushed); err != nil {
		return err
	}
	return l.putQueue(ctx, pulled)
}

func (l *Load) putQueue(ctx context.Context, want client.Queue) error {
	end := l.cfg.Recorder.Now().Add(l.cfg.RetryFor)
	for node := 0; ; node++ {
		_, err := l.caller.clients[node%len(l.caller.clients)].PutQueue(ctx, want)
		if err == nil {
			return nil
		}
		if l.cfg.Recorder.Now() > end || !load.Wait(ctx, maxPause) {
			return fmt.Errorf("making the queue %s: %w", want.Name, err)
		}
	}
}
