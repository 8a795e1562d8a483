package workload

import (
	"context"
	"fmt"
	"time"

	"github.com/belfryhq/belfry/bench/figure"
	"github.com/belfryhq/belfry/bench/subject"
	"github.com/belfryhq/belfry/internal/loop"
)

// restart kills a service before its tasks are due, and starts it again when all of them are due.
func restart(s Sizes) Workload {
	return Workload{
		Name:  "restart",
		Title: fmt.Sprintf("all killed after %d acknowledgements, started again when all are due", s.RestartTasks),
		Figures: append([]figure.Kind{
			{Key: "first", Title: "start to first fire", Unit: "ms"},
			{Key: "last", Title: "to the last", Unit: "ms"},
		}, strayKinds()...),
		run: playRestart,
	}
}

// restartSpread is the time in which the tasks are due.
const restartSpread = time.Second

func playRestart(ctx context.Context, r *run) error {
	killer, err := able[subject.Killer](r.service, "be killed and started again")
	if err != nil {
		return err
	}
	load, err := r.loader(ctx)
	if err != nil {
		return err
	}
	if _, err := able[subject.Consumer](load.callers[0], "be consumed from"); err != nil {
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
