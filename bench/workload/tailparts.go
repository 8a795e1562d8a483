package workload

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/belfryhq/belfry/bench/subject"
)

// soonAfter is how long before its beginning a part is laid down.
const soonAfter = 100 * time.Millisecond

func prepareQuiet(context.Context, *tailRun) (time.Time, disturbance, error) {
	return time.Now().Add(soonAfter), nil, nil
}

// What is replaced again and again, for the log to grow while the tasks do not.
const (
	rewriteBytes = 16 << 10 // of a payload
	rewriteBatch = 16
	rewriteTasks = 100 * rewriteBatch
	rewriters    = 4
)

// prepareSnapshots has the log grow, so that snapshots are written and the log before them is cut.
func prepareSnapshots(ctx context.Context, t *tailRun) (begin time.Time, disturb disturbance, err error) {
	callers, err := t.callers(ctx, rewriters)
	if err != nil {
		return begin, nil, err
	}
	begin = time.Now().Add(soonAfter)
	rate := max(t.sizes.TailsRewrite/rewriteBytes/rewriteBatch, 1) // batches a second
	n := int(float64(rate) * t.sizes.TailsFor.Seconds())
	task := farOff(newIDs(), newPayload(rewriteBytes))
	return begin, func(ctx context.Context) error {
		_, err := pace(ctx, callers, begin, n, rate, func(ctx context.Context, c subject.Caller, i int) error {
			first := i * rewriteBatch % rewriteTasks
			return c.(subject.Replacer).Replace(ctx, batchOf(task, first, first+rewriteBatch))
		})
		return unlessEnded(ctx, err)
	}, nil
}

// unlessEnded is the error of what goes on beside the schedules, which its end is not.
func unlessEnded(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// prepareCascade has many tasks come due, in the middle of the part, within a span of time that a timing wheel opens as
// one slot or in a few steps. Nobody takes them.
func prepareCascade(ctx context.Context, t *tailRun) (begin time.Time, disturb disturbance, err error) {
	payload := newPayload(t.sizes.Payload)
	lead, err := t.load.lead(ctx, t.sizes.TailsCascade, payload)
	if err != nil {
		return begin, nil, err
	}
	half := t.sizes.TailsFor / 2
	span := t.sizes.TailsSpan
	opened := nextMultiple(time.Now().Add(lead+half), span)
	ids := newIDs()
	took, err := t.load.load(ctx, t.sizes.TailsCascade, func(i int) subject.Task {
		offset := time.Duration(float64(span) * float64(i) / float64(t.sizes.TailsCascade))
		return subject.Task{ID: ids.id(i), Due: opened.Add(offset.Truncate(time.Millisecond)), Payload: payload}
	})
	if err != nil {
		return begin, nil, fmt.Errorf("scheduling what comes due: %w", err)
	}
	begin = opened.Add(-half)
	t.say("%d tasks, scheduled in %v, come due within %v from %s on", t.sizes.TailsCascade, took.elapsed, span,
		opened.Format("15:04:05.000"))
	if time.Until(begin) < 0 {
		return begin, nil, errLoadTooSlow
	}
	return begin, nil, nil
}

// nextMultiple is the next instant whose Unix time is a multiple of the span.
func nextMultiple(after time.Time, span time.Duration) time.Time {
	return time.Unix(0, (after.UnixNano()/int64(span)+1)*int64(span))
}

const stormQueue = "storm"

// prepareStorm has many tasks of a queue come due in one millisecond while its consumers come and go.
func prepareStorm(ctx context.Context, t *tailRun) (begin time.Time, disturb disturbance, err error) {
	queuer := t.service.(subject.Queuer) // open has seen to it
	callers, err := t.run.open(t.sizes.Callers, func(int) (subject.Caller, error) {
		return queuer.QueueCaller(ctx, stormQueue)
	})
	if err != nil {
		return begin, nil, err
	}
	out := &fired{ledger: newLedger(newIDs(), t.sizes.BurstTasks)}
	load := &loader{callers: callers, batch: t.load.batch}
	if err := t.scheduleAhead(ctx, load, firing{tasks: t.sizes.BurstTasks}, out); err != nil {
		return begin, nil, err
	}
	begin = out.first.Add(-t.sizes.TailsFor / 4)
	if soon := time.Now().Add(soonAfter); begin.Before(soon) {
		begin = soon
	}
	return begin, func(ctx context.Context) error {
		err := t.consumeByTurns(ctx, queuer, out.got)
		_, last := out.span()
		t.say("%d of %d tasks arrived, the last after %v", len(out.due)-int(out.missing.Load()), len(out.due),
			last.Sub(out.first))
		return err
	}, nil
}

// How long a consumer stays: not all equally long.
const (
	shortestStay = 100 * time.Millisecond
	stayStep     = 37 * time.Millisecond
	stays        = 10
)

// consumeByTurns keeps so many consumers that come, stay for a moment and go.
func (t *tailRun) consumeByTurns(ctx context.Context, queuer subject.Queuer, got got) error {
	var group errgroup.Group
	for i := range t.sizes.TailsConsumers {
		group.Go(func() error {
			for turn := i; ctx.Err() == nil; turn++ {
				stay := shortestStay + time.Duration(turn%stays)*stayStep
				if err := consumeFor(ctx, queuer, stay, got); err != nil {
					return unlessEnded(ctx, err)
				}
			}
			return nil
		})
	}
	return group.Wait()
}

func consumeFor(ctx context.Context, queuer subject.Queuer, stay time.Duration, got got) error {
	ctx, cancel := context.WithTimeout(ctx, stay)
	defer cancel()
	caller, err := queuer.QueueCaller(ctx, stormQueue)
	if err != nil {
		return err
	}
	consumer, err := able[subject.Consumer](caller, "be consumed from")
	if err == nil {
		err = unlessEnded(ctx, consumer.Consume(ctx, got))
	}
	return cmp.Or(err, caller.Close())
}

// moveEvery is how long after one that was stopped is ready again the next one is stopped: its shards are home by then.
const moveEvery = 6 * time.Second

// prepareMoves has one leader after the other stop in order and start again: its shards go to others, and then home.
func prepareMoves(_ context.Context, t *tailRun) (time.Time, disturbance, error) {
	stopper, killer := t.service.(subject.LeaderStopper), t.service.(subject.Killer) // open has seen to it
	awaiter := t.service.(subject.ReadyAwaiter)
	return time.Now().Add(soonAfter), func(ctx context.Context) error {
		next := time.Now().Add(soonAfter)
		for sleepUntil(ctx, next) == nil {
			began := time.Now()
			err := stopper.StopLeader()
			took := time.Since(began)
			if err := errors.Join(err, killer.Restart(context.WithoutCancel(ctx))); err != nil {
				return err
			}
			if err := awaiter.AwaitReady(ctx); err != nil {
				return subject.Ended(ctx, err)
			}
			t.say("a leader was stopped at %s, which took %v; all were ready again %v after", began.Format("15:04:05.000"),
				took, time.Since(began)-took)
			next = time.Now().Add(moveEvery)
		}
		return nil
	}, nil
}
