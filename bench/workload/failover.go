package workload

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/belfryhq/belfry/bench/figure"
	"github.com/belfryhq/belfry/bench/subject"
	"github.com/belfryhq/belfry/internal/loop"
)

func failover(s Sizes) Workload {
	b := breakdown{name: "failover", title: "leader killed, pulled", strike: killLeader}
	return b.workload(s)
}

func failoverWebhook(s Sizes) Workload {
	b := breakdown{name: "failover-webhook", title: "leader killed, webhooks", push: true, strike: killLeader}
	return b.workload(s)
}

func handover(s Sizes) Workload {
	b := breakdown{name: "handover", title: "leader stopped in order, webhooks", push: true, strike: stopLeader}
	return b.workload(s)
}

func killLeader(service subject.Service) (func() error, error) {
	killer, err := able[subject.LeaderKiller](service, "lose its leader")
	if err != nil {
		return nil, err
	}
	return killer.KillLeader, nil
}

func stopLeader(service subject.Service) (func() error, error) {
	stopper, err := able[subject.LeaderStopper](service, "let its leader stop")
	if err != nil {
		return nil, err
	}
	return stopper.StopLeader, nil
}

// breakdown takes the leader away while tasks fire and are scheduled, both at fixed rates. The next due tasks and the
// next writes wait for a new leader. The workload measures how long they wait.
type breakdown struct {
	name, title string
	push        bool
	strike      func(service subject.Service) (func() error, error) // returns the function that takes the leader away
}

func (b breakdown) workload(s Sizes) Workload {
	return Workload{
		Name: b.name, Title: fmt.Sprintf("%s, %d due and %d scheduled a second", b.title, s.FailoverRate, s.FailoverWrites),
		Figures: append([]figure.Kind{
			{Key: "fires", Title: "until it fires again", Unit: "ms"},
			{Key: "writes", Title: "until it takes writes again", Unit: "ms"},
			{Key: "late", Title: "late max", Unit: "ms"},
		}, strayKinds()...),
		run: b.play,
	}
}

func (b breakdown) play(ctx context.Context, r *run) error {
	strike, err := b.strike(r.service)
	if err != nil {
		return err
	}
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
	if !b.push {
		if _, err := able[subject.Consumer](load.callers[0], "be consumed from"); err != nil {
			return err
		}
	}
	if err := r.scheduleAhead(ctx, load, firing{tasks: n, over: r.sizes.FailoverFor}, out); err != nil {
		return err
	}
	return r.breakDown(ctx, strike, out)
}

// strikeAfter is the instant of the strike, as a fraction of the time.
const strikeAfter = 0.3

func (r *run) breakDown(ctx context.Context, strike func() error, out *fired) error {
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
		return strike()
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
