package workload

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/belfryhq/belfry/bench/subject"
	"github.com/belfryhq/belfry/internal/loop"
)

// soonAfter is the time between the preparation of a part and its beginning.
const soonAfter = 100 * time.Millisecond

func prepareQuiet(context.Context, *tailRun) (time.Time, disturbance, error) {
	return time.Now().Add(soonAfter), nil, nil
}

// Tasks that are replaced repeatedly, so that the log grows while the number of tasks does not.
const (
	rewriteBytes = 16 << 10 // of a payload
	rewriteBatch = 16
	rewriteTasks = 100 * rewriteBatch
	rewriters    = 4
)

// prepareSnapshots makes the log grow, so that the service writes snapshots and shortens the log.
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
		_, err := loop.Open(ctx, callers, begin, n, evenly(rate), func(ctx context.Context, c subject.Caller, i int) error {
			first := i * rewriteBatch % rewriteTasks
			return c.(subject.Replacer).Replace(ctx, batchOf(task, first, first+rewriteBatch))
		})
		return unlessEnded(ctx, err)
	}, nil
}

// unlessEnded returns err, or nil if the context has ended: the end of a disturbance is no error.
func unlessEnded(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// prepareCascade makes many tasks due in the middle of the part, within a span that a timing wheel opens as one slot or
// in a few steps. No consumer takes them.
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
		return begin, nil, fmt.Errorf("scheduling the tasks that come due: %w", err)
	}
	begin = opened.Add(-half)
	t.say("%d tasks, scheduled in %v, come due within %v from %s on", t.sizes.TailsCascade, took.Elapsed, span,
		opened.Format("15:04:05.000"))
	if time.Until(begin) < 0 {
		return begin, nil, errLoadTooSlow
	}
	return begin, nil, nil
}

// nextMultiple returns the next instant whose Unix time is a multiple of the span.
func nextMultiple(after time.Time, span time.Duration) time.Time {
	return time.Unix(0, (after.UnixNano()/int64(span)+1)*int64(span))
}

const stormQueue = "storm"

// prepareStorm makes many tasks of a queue due in one millisecond while the queue's consumers come and go.
func prepareStorm(ctx context.Context, t *tailRun) (begin time.Time, disturb disturbance, err error) {
	queuer := t.service.(subject.Queuer) // open has checked it
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

// Durations for which consumers stay. They differ, so that the consumers do not go at once.
const (
	shortestStay = 100 * time.Millisecond
	stayStep     = 37 * time.Millisecond
	stays        = 10
)

// consumeByTurns keeps TailsConsumers consumers running, each of which comes, stays for a moment and goes.
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

// moveEvery is the pause between a restarted node's readiness and the next stop. The shards have returned by then.
const moveEvery = 6 * time.Second

// prepareMoves stops one leader after the other gracefully and restarts it. Its shards move to other nodes and then
// back.
func prepareMoves(_ context.Context, t *tailRun) (time.Time, disturbance, error) {
	stopper, killer := t.service.(subject.LeaderStopper), t.service.(subject.Killer) // open has checked it
	awaiter := t.service.(subject.ReadyAwaiter)
	return time.Now().Add(soonAfter), func(ctx context.Context) error {
		next := time.Now().Add(soonAfter)
		for loop.SleepUntil(ctx, next) == nil {
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
