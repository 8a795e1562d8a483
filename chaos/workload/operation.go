package workload

import (
	"context"
	"time"

	"github.com/belfryhq/belfry/chaos/history"
	"github.com/belfryhq/belfry/client"
)

// task is what a schedule of this workload asks for, besides its id and its payload.
type task struct {
	fireAt      time.Time
	delay       time.Duration // in place of fireAt
	fail        int           // attempts that the receiver fails
	hold        int           // milliseconds for which the receiver keeps its answer back
	maxAttempts int           // 0: the service's default
	ifAbsent    bool
	ifRevision  uint64
}

// Backoffs keep retries within a short run, also after a receiver that was hostile for long.
const (
	minBackoff = 200 * time.Millisecond
	maxBackoff = 2 * time.Second
)

func (l *Load) build(id string, op int64, t task) client.Task {
	return client.Task{
		ID: id, FireAt: t.fireAt, Delay: t.delay, Payload: payload{Op: op, Fail: t.fail, Hold: t.hold}.encode(),
		Target: &client.Target{URL: l.cfg.Target},
		Retry:  &client.Retry{MaxAttempts: t.maxAttempts, MinBackoff: minBackoff, MaxBackoff: maxBackoff},
	}
}

func ask(t client.Task) history.Ask {
	return history.Ask{FireAt: ceil(t.FireAt), Delay: t.Delay, Body: fingerprint(t.Payload)}
}

// ceil rounds as the service does.
func ceil(t time.Time) history.Instant {
	if t.IsZero() {
		return 0
	}
	return history.At(t.Add(time.Millisecond - 1).Truncate(time.Millisecond))
}

func (l *Load) schedule(id string, t task) (history.Call, send) {
	op := l.cfg.Recorder.NextOp()
	want := l.build(id, op, t)
	what := history.Call{Op: op, Kind: history.Schedule, ID: id, Ask: ask(want)}
	what.Ask.IfAbsent, what.Ask.IfRevision = t.ifAbsent, t.ifRevision
	return what, func(ctx context.Context, c *client.Client, key string) (history.Answer, error) {
		opts := []client.Option{client.WithKey(key)}
		if t.ifAbsent {
			opts = append(opts, client.IfAbsent())
		}
		if t.ifRevision > 0 {
			opts = append(opts, client.IfRevision(t.ifRevision))
		}
		return seen(c.Schedule(ctx, want, opts...))
	}
}

// patch moves a task, and swaps its payload if swap is set.
func (l *Load) patch(id string, delay time.Duration, swap bool) (history.Call, send) {
	op := l.cfg.Recorder.NextOp()
	change := client.Patch{Delay: delay}
	if swap {
		change.Payload = payload{Op: op}.encode()
	}
	what := history.Call{Op: op, Kind: history.Patch, ID: id,
		Ask: history.Ask{Delay: delay, Body: fingerprint(change.Payload)}}
	return what, func(ctx context.Context, c *client.Client, key string) (history.Answer, error) {
		return seen(c.Patch(ctx, id, change, client.WithKey(key)))
	}
}

// touch starts the delay again; with orSchedule it also makes a task where there is none.
func (l *Load) touch(id string, delay time.Duration, orSchedule bool) (history.Call, send) {
	op := l.cfg.Recorder.NextOp()
	what := history.Call{Op: op, Kind: history.Touch, ID: id, Ask: history.Ask{Delay: delay, OrSchedule: orSchedule}}
	touch := client.Touch{Delay: delay}
	if orSchedule {
		want := l.build(id, op, task{delay: delay})
		touch.OrSchedule = &want
		what.Ask.Body = fingerprint(want.Payload)
	}
	return what, func(ctx context.Context, c *client.Client, key string) (history.Answer, error) {
		return seen(c.Touch(ctx, id, touch, client.WithKey(key)))
	}
}

func (l *Load) fire(id string) (history.Call, send) {
	what := history.Call{Op: l.cfg.Recorder.NextOp(), Kind: history.Fire, ID: id}
	return what, func(ctx context.Context, c *client.Client, key string) (history.Answer, error) {
		return seen(c.FireNow(ctx, id, client.WithKey(key)))
	}
}

func (l *Load) cancel(id string) (history.Call, send) {
	what := history.Call{Op: l.cfg.Recorder.NextOp(), Kind: history.Cancel, ID: id}
	return what, func(ctx context.Context, c *client.Client, key string) (history.Answer, error) {
		outcome, err := c.Cancel(ctx, id, client.WithKey(key))
		return history.Answer{Cancel: string(outcome)}, err
	}
}

func (l *Load) get(id string) (history.Call, send) {
	return history.Call{Op: l.cfg.Recorder.NextOp(), Kind: history.Get, ID: id}, read(id)
}

func read(id string) send {
	return func(ctx context.Context, c *client.Client, _ string) (history.Answer, error) {
		return seen(c.Get(ctx, id))
	}
}

func readStale(id string) send {
	return func(ctx context.Context, c *client.Client, _ string) (history.Answer, error) {
		return seen(c.GetStale(ctx, id))
	}
}

// seen is what a task in an answer shows.
func seen(t *client.Task, err error) (history.Answer, error) {
	if err != nil {
		return history.Answer{}, err
	}
	return history.Answer{
		Revision: t.Revision, Shard: t.Shard, State: string(t.State), Previous: string(t.Previous),
		FireAt: history.At(t.FireAt), Attempts: t.Attempts, Body: fingerprint(t.Payload), Wrote: decode(t.Payload).Op,
		Cancel: string(t.Outcome),
	}, nil
}
