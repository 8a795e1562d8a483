package workload

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/belfryhq/belfry/bench/subject"
	"github.com/belfryhq/belfry/internal/loop"
)

func killLeader(service subject.Service) error { return service.(subject.LeaderKiller).KillLeader() }
func stopLeader(service subject.Service) error { return service.(subject.LeaderStopper).StopLeader() }

// breakdown takes the leader away while tasks fire and are scheduled, both at fixed rates. The next due tasks and the
// next writes wait for a new leader. The workload measures how long they wait.
type breakdown struct {
	name, title string
	push        bool
	ability     need
	strike      func(service subject.Service) error // takes the leader away
}

func (b breakdown) workload(s Sizes) Workload {
	return Workload{
		Name: b.name, Title: fmt.Sprintf("%s, %d due and %d scheduled a second", b.title, s.FailoverRate, s.FailoverWrites),
		Figures: append([]Figure{
			{Key: "fires", Title: "until it fires again", Unit: "ms"},
			{Key: "writes", Title: "until it takes writes again", Unit: "ms"},
			{Key: "late", Title: "late max", Unit: "ms"},
		}, strayKinds()...),
		needs: []need{b.ability, toDeliver(b.push)}, run: b.play,
	}
}

func (b breakdown) play(ctx context.Context, r *run) error {
	n := int(float64(r.sizes.FailoverRate) * r.sizes.FailoverFor.Seconds())
	out := &fired{ledger: newLedger(newIDs(), n)}
	if b.push {
		stop, err := r.receive(ctx, out.got)
		if err != nil {
			return err
		}
		defer func() {
			if err := stop(); err != nil {
				r.say("closing the receiver: %v", err)
			}
		}()
	} else {
		defer r.consumeThrough(ctx, r.sizes.Consumers, out.got)()
	}
	load, err := r.loader(ctx)
	if err != nil {
		return err
	}
	if err := r.scheduleAhead(ctx, load, firing{tasks: n, over: r.sizes.FailoverFor}, out); err != nil {
		return err
	}
	return r.breakDown(ctx, b.strike, out)
}

// strikeAfter is the instant of the strike, as a fraction of the time.
const strikeAfter = 0.3

func (r *run) breakDown(ctx context.Context, strike func(subject.Service) error, out *fired) error {
	at := out.first.Add(time.Duration(strikeAfter * float64(r.sizes.FailoverFor)))
	w := &writes{begin: out.first, rate: r.sizes.FailoverWrites}
	if err := loop.SleepUntil(ctx, out.first.Add(-readBefore)); err != nil {
		return err
	}
	stop := r.meter()
	defer stop()
	var struck time.Time
	group, gctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		if err := loop.SleepUntil(gctx, at); err != nil {
			return err
		}
		struck = time.Now()
		return strike(r.service)
	})
	group.Go(func() error { return w.keepOn(gctx, r) })
	group.Go(func() error { return out.wait(gctx, out.first.Add(r.sizes.FailoverFor+r.sizes.Patience)) })
	if err := group.Wait(); err != nil {
		return err
	}
	r.setBreakdown(out, w, struck)
	return nil
}

// granted is the time after the strike in which the old leader may have handed out due tasks already. Such a task
// returns when its lease ends, and so does not show when the new leader began.
const granted = 50 * time.Millisecond

func (r *run) setBreakdown(out *fired, w *writes, struck time.Time) {
	all := out.punctuality(nil)
	after := out.punctuality(func(i int) bool { return out.dueOf(i).After(struck.Add(granted)) })
	if n := len(after.lateness); n > 0 {
		r.set("fires", milliseconds(after.lateness[n-1]+granted))
	}
	if n := len(all.lateness); n > 0 {
		r.set("late", milliseconds(all.lateness[n-1]))
	}
	r.set("writes", milliseconds(w.longestSince(struck)))
	r.setStrays(out.ledger, all)
	r.say("leader taken away after %v; %d arrived, %d did not, %d came again; %d writes, %d tries failed",
		struck.Sub(out.first), len(all.lateness), all.lost, out.repeats.Load(), len(w.latencies), w.failures.Load())
}

// restart kills a service before its tasks are due, and starts it again when all of them are due.
func restart(s Sizes) Workload {
	return Workload{
		Name:  "restart",
		Title: fmt.Sprintf("all killed after %d acknowledgements, started again when all are due", s.RestartTasks),
		Figures: append([]Figure{
			{Key: "first", Title: "start to first fire", Unit: "ms"},
			{Key: "last", Title: "to the last", Unit: "ms"},
		}, strayKinds()...),
		needs: []need{toBeKilled, toBeConsumed}, run: playRestart,
	}
}

// restartSpread is the time in which the tasks are due.
const restartSpread = time.Second

func playRestart(ctx context.Context, r *run) error {
	killer := r.service.(subject.Killer)
	load, err := r.loader(ctx)
	if err != nil {
		return err
	}
	f := firing{tasks: r.sizes.RestartTasks, over: restartSpread}
	out := &fired{ledger: newLedger(newIDs(), f.tasks)}
	if err := r.scheduleAhead(ctx, load, f, out); err != nil {
		return err
	}
	if err := killer.KillAll(); err != nil {
		return fmt.Errorf("killing all: %w", err)
	}
	if !time.Now().Before(out.first) {
		return errLoadTooSlow
	}
	r.closeCallers()
	if err := loop.SleepUntil(ctx, out.first.Add(restartSpread)); err != nil {
		return err
	}
	return r.startAgain(ctx, killer, out)
}

func (r *run) startAgain(ctx context.Context, killer subject.Killer, out *fired) error {
	began := time.Now()
	if err := killer.Restart(ctx); err != nil {
		return fmt.Errorf("starting again: %w", err)
	}
	metered := r.meter()
	stop := r.consumeThrough(ctx, r.sizes.Consumers, out.got)
	err := out.wait(ctx, began.Add(r.sizes.Patience))
	metered()
	stop()
	if err != nil {
		return err
	}
	p := out.punctuality(nil)
	r.setStrays(out.ledger, p)
	if first, last := out.span(); !first.IsZero() {
		r.set("first", milliseconds(first.Sub(began)))
		r.set("last", milliseconds(last.Sub(began)))
	}
	r.say("after the start %d arrived, %d did not", len(p.lateness), p.lost)
	return nil
}

// writes are tasks that are scheduled at a fixed rate through a failure. Each write is repeated until it is
// acknowledged.
type writes struct {
	begin     time.Time
	rate      int
	latencies []time.Duration // by number; from the planned instants
	failures  atomic.Int64
}

// writeTry is the time limit of one try.
const writeTry = 5 * time.Second

// keepOn writes at the fixed rate for FailoverFor.
func (w *writes) keepOn(ctx context.Context, r *run) error {
	writers := make([]*writer, r.sizes.Callers)
	for i := range writers {
		writers[i] = &writer{run: r, failures: &w.failures}
		defer writers[i].drop()
	}
	task := farOff(newIDs(), newPayload(r.sizes.Payload))
	n := int(float64(w.rate) * r.sizes.FailoverFor.Seconds())
	var err error
	w.latencies, err = loop.Open(ctx, writers, w.begin, n, evenly(w.rate),
		func(ctx context.Context, c *writer, i int) error { return c.write(ctx, task(i)) })
	return err
}

// longestSince returns the longest latency of the writes that were planned after an instant.
func (w *writes) longestSince(at time.Time) time.Duration {
	var longest time.Duration
	for i, latency := range w.latencies {
		if w.begin.Add(planned(i, w.rate)).After(at) {
			longest = max(longest, latency)
		}
	}
	return longest
}

// writer is a caller that is replaced after a failed call, as a program does after a broken connection.
type writer struct {
	run      *run
	caller   subject.Caller // nil: to be made
	failures *atomic.Int64
}

// write repeats the call until the task is acknowledged.
func (w *writer) write(ctx context.Context, task subject.Task) error {
	for {
		err := w.try(ctx, task)
		if err == nil {
			return nil
		}
		w.failures.Add(1)
		w.drop()
		if paused := loop.SleepUntil(ctx, time.Now().Add(retryPause)); paused != nil {
			return errors.Join(paused, err)
		}
	}
}

func (w *writer) try(ctx context.Context, task subject.Task) (err error) {
	ctx, cancel := context.WithTimeout(ctx, writeTry)
	defer cancel()
	if w.caller == nil {
		if w.caller, err = w.run.caller(ctx); err != nil {
			w.caller = nil
			return err
		}
	}
	return w.caller.Schedule(ctx, task)
}

// drop closes the caller. It ignores the error, which is expected of a broken caller.
func (w *writer) drop() {
	if w.caller != nil {
		_ = w.caller.Close()
		w.caller = nil
	}
}
