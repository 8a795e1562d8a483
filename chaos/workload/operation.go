package workload

import (
	"context"
	"time"

	"github.com/belfryhq/belfry/chaos/history"
	"github.com/belfryhq/belfry/client"
)

// operation is something to be done, as a call of its own or as a line of a batch.
type operation struct {
	what history.Call
	send send
	line func(opts ...client.Option) client.Op // nil: it cannot be one
}

// task is what a schedule of this workload asks for, besides its id and its payload.
type task struct {
	fireAt      time.Time
	delay       time.Duration // in place of fireAt
	pulled      bool          // by consumers; else it goes to the receiver
	fail        int           // attempts that the receiver or the consumer fails
	hold        int           // milliseconds for which they keep their answer back
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
	want := client.Task{
		ID: id, FireAt: t.fireAt, Delay: t.delay, Payload: payload{Op: op, Fail: t.fail, Hold: t.hold}.encode(),
		Retry: &client.Retry{MaxAttempts: t.maxAttempts, MinBackoff: minBackoff, MaxBackoff: maxBackoff},
	}
	if t.pulled {
		want.Queue = l.cfg.Queue
	} else {
		want.Target = &client.Target{URL: l.cfg.Target}
	}
	return want
}

func ask(t client.Task) history.Ask {
	return history.Ask{FireAt: ceil(t.FireAt), Delay: t.Delay, Body: history.Fingerprint(t.Payload)}
}

// ceil rounds as the service does.
func ceil(t time.Time) history.Instant {
	if t.IsZero() {
		return 0
	}
	return history.At(t.Add(time.Millisecond - 1).Truncate(time.Millisecond))
}

func (t task) conditions() []client.Option {
	var opts []client.Option
	if t.ifAbsent {
		opts = append(opts, client.IfAbsent())
	}
	if t.ifRevision > 0 {
		opts = append(opts, client.IfRevision(t.ifRevision))
	}
	return opts
}

func (l *Load) schedule(id string, t task) operation {
	op := l.cfg.Recorder.NextOp()
	want, conditions := l.build(id, op, t), t.conditions()
	what := history.Call{Op: op, Kind: history.Schedule, ID: id, Ask: ask(want)}
	what.Ask.IfAbsent, what.Ask.IfRevision = t.ifAbsent, t.ifRevision
	return operation{
		what: what,
		send: func(ctx context.Context, c *client.Client, key string) (history.Answer, error) {
			var kept client.Task
			opts := append([]client.Option{client.WithKey(key), client.ReturnTask(&kept)}, conditions...)
			_, err := c.Schedule(ctx, want, opts...)
			return seen(&kept, err)
		},
		line: func(opts ...client.Option) client.Op { return client.ScheduleOp(want, append(conditions, opts...)...) },
	}
}

// patch moves a task, and swaps its payload if swap is set.
func (l *Load) patch(id string, delay time.Duration, swap bool) operation {
	op := l.cfg.Recorder.NextOp()
	change := client.Patch{Delay: delay}
	if swap {
		change.Payload = payload{Op: op}.encode()
	}
	what := history.Call{Op: op, Kind: history.Patch, ID: id,
		Ask: history.Ask{Delay: delay, Body: history.Fingerprint(change.Payload)}}
	return operation{what: what, send: func(ctx context.Context, c *client.Client, key string) (history.Answer, error) {
		return seen(c.Patch(ctx, id, change, client.WithKey(key)))
	}}
}

// touch starts the delay again; with or, a task is made of that where there is none.
func (l *Load) touch(id string, delay time.Duration, or *task) operation {
	op := l.cfg.Recorder.NextOp()
	what := history.Call{Op: op, Kind: history.Touch, ID: id, Ask: history.Ask{Delay: delay}}
	touch := client.Touch{Delay: delay}
	if or != nil {
		want := l.build(id, op, *or)
		touch.OrSchedule = &want
		what.Ask.OrSchedule, what.Ask.Body = true, history.Fingerprint(want.Payload)
	}
	return operation{
		what: what,
		send: func(ctx context.Context, c *client.Client, key string) (history.Answer, error) {
			var kept client.Task
			_, err := c.Touch(ctx, id, touch, client.WithKey(key), client.ReturnTask(&kept))
			return seen(&kept, err)
		},
		line: func(opts ...client.Option) client.Op { return client.TouchOp(id, touch, opts...) },
	}
}

func (l *Load) fire(id string) operation {
	return operation{
		what: history.Call{Op: l.cfg.Recorder.NextOp(), Kind: history.Fire, ID: id},
		send: func(ctx context.Context, c *client.Client, key string) (history.Answer, error) {
			var kept client.Task
			_, err := c.FireNow(ctx, id, client.WithKey(key), client.ReturnTask(&kept))
			return seen(&kept, err)
		},
		line: func(opts ...client.Option) client.Op { return client.FireOp(id, opts...) },
	}
}

func (l *Load) cancel(id string) operation {
	return operation{
		what: history.Call{Op: l.cfg.Recorder.NextOp(), Kind: history.Cancel, ID: id},
		send: func(ctx context.Context, c *client.Client, key string) (history.Answer, error) {
			var left client.Task
			outcome, err := c.Cancel(ctx, id, client.WithKey(key), client.ReturnTask(&left))
			return history.Answer{Cancel: string(outcome), Revision: left.Revision}, err
		},
		line: func(opts ...client.Option) client.Op { return client.CancelOp(id, opts...) },
	}
}

func (l *Load) get(id string) operation {
	what := history.Call{Op: l.cfg.Recorder.NextOp(), Kind: history.Get, ID: id}
	return operation{what: what, send: func(ctx context.Context, c *client.Client, _ string) (history.Answer, error) {
		return seen(c.Get(ctx, id))
	}}
}

func (l *Load) getStale(id string) operation {
	what := history.Call{Op: l.cfg.Recorder.NextOp(), Kind: history.Stale, ID: id}
	return operation{what: what, send: func(ctx context.Context, c *client.Client, _ string) (history.Answer, error) {
		return seen(c.GetStale(ctx, id))
	}}
}

// seen is what a task in an answer shows.
func seen(t *client.Task, err error) (history.Answer, error) {
	if err != nil {
		return history.Answer{}, err
	}
	return history.Answer{
		Revision: t.Revision, Shard: t.Shard, State: string(t.State), Previous: string(t.Previous),
		FireAt: history.At(t.FireAt), Attempts: t.Attempts, Body: history.Fingerprint(t.Payload), Wrote: decode(t.Payload).Op,
		Cancel: string(t.Outcome),
	}, nil
}
