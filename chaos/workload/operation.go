package workload

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/belfryhq/belfry/chaos/history"
	"github.com/belfryhq/belfry/chaos/load"
	"github.com/belfryhq/belfry/client"
)

// The backoffs keep retries within a short run, also after a receiver was hostile for long.
const (
	minBackoff = 200 * time.Millisecond
	maxBackoff = 2 * time.Second
)

// send makes one request of an operation and returns the answer of the node.
func (c *caller) send(ctx context.Context, to *client.Client, op load.Operation) (history.Answer, error) {
	id, key := op.What.ID, client.WithKey(c.key(op.What.Op))
	var kept client.Task
	var err error
	switch op.What.Kind {
	case history.Schedule:
		_, err = to.Schedule(ctx, c.task(op), append(conditions(op.Task), key, client.ReturnTask(&kept))...)
	case history.Touch:
		_, err = to.Touch(ctx, id, c.touch(op), key, client.ReturnTask(&kept))
	case history.Fire:
		_, err = to.FireNow(ctx, id, key, client.ReturnTask(&kept))
	case history.Cancel:
		outcome, err := to.Cancel(ctx, id, key, client.ReturnTask(&kept))
		return history.Answer{Cancel: string(outcome), Revision: kept.Revision}, err
	case history.Patch:
		return shown(to.Patch(ctx, id, client.Patch{Delay: op.Delay, Payload: op.Body}, key))
	case history.Get:
		return shown(to.Get(ctx, id))
	case history.Stale:
		return shown(to.GetStale(ctx, id))
	default:
		settled := to.Settle(ctx, c.queue, settlementOf(op))[0]
		return history.Answer{Status: settled.Status, Replaced: settled.Replaced}, settled.Err
	}
	return shown(&kept, err)
}

// line returns the line of a batch for an operation. It panics on a kind that cannot be a line.
func (c *caller) line(op load.Operation) client.Op {
	id, key := op.What.ID, client.WithKey(c.key(op.What.Op))
	switch op.What.Kind {
	case history.Schedule:
		return client.ScheduleOp(c.task(op), append(conditions(op.Task), key)...)
	case history.Touch:
		return client.TouchOp(id, c.touch(op), key)
	case history.Fire:
		return client.FireOp(id, key)
	case history.Cancel:
		return client.CancelOp(id, key)
	default:
		panic(fmt.Sprintf("%s in a batch", op.What.Kind)) // no script makes such a line
	}
}

// task returns the task of a schedule, or of a touch that may make one.
func (c *caller) task(op load.Operation) client.Task {
	t := op.Task
	want := client.Task{
		ID: op.What.ID, FireAt: t.FireAt, Delay: t.Delay, Queue: t.Queue, Group: t.Group, Payload: op.Body,
		ExpiresAfter: t.Expires,
	}
	if t.Queue == c.bulkPushed || t.Queue == c.bulkPulled { // bulk tasks have as few settings as possible
		return want
	}
	if IsHostile(op.What.Op) {
		want.Labels = map[string]string{"note": history.HostileText}
	}
	want.Retry = &client.Retry{MaxAttempts: t.MaxAttempts, MinBackoff: minBackoff, MaxBackoff: maxBackoff}
	if t.Queue == "" {
		want.Target = &client.Target{URL: c.target + Path(op.What.Op)}
	}
	return want
}

// hostileEvery is the number of operations of which one labels its task with history.HostileText.
const hostileEvery = 50

// IsHostile reports whether the task of operation op, if it is no bulk task, has a label with history.HostileText.
func IsHostile(op int64) bool { return op%hostileEvery == 0 }

// Paths is the number of paths below the receiver's URL to which tasks of the default queue go.
const Paths = 8

// Path returns the path below the receiver's URL to which the task of operation op goes.
func Path(op int64) string { return "/" + strconv.FormatInt(op%Paths, 10) }

func (c *caller) touch(op load.Operation) client.Touch {
	touch := client.Touch{Delay: op.Delay}
	if op.Task != nil {
		want := c.task(op)
		touch.OrSchedule = &want
	}
	return touch
}

func conditions(t *load.Task) []client.Option {
	var opts []client.Option
	if t.IfAbsent {
		opts = append(opts, client.IfAbsent())
	}
	if t.IfRevision > 0 {
		opts = append(opts, client.IfRevision(t.IfRevision))
	}
	return opts
}

// shown converts a task in an answer to the answer that the record keeps.
func shown(t *client.Task, err error) (history.Answer, error) {
	if err != nil {
		return history.Answer{}, err
	}
	return history.Answer{
		Revision: t.Revision, Shard: t.Shard, State: string(t.State), Previous: string(t.Previous),
		FireAt: history.At(t.FireAt), Attempts: t.Attempts, Body: history.Fingerprint(t.Payload),
		Wrote: load.Decode(t.Payload).Op, Cancel: string(t.Outcome),
	}, nil
}
