package chaos_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/belfryhq/belfry/chaos/check"
	"github.com/belfryhq/belfry/chaos/faults"
	"github.com/belfryhq/belfry/chaos/history"
	"github.com/belfryhq/belfry/chaos/siege"
	"github.com/belfryhq/belfry/internal/gated"
)

// outlasting is a play of one schedule, whose leader is killed again and again while its slot moves from shard to
// shard.
type outlasting struct {
	every        time.Duration
	kills, moves int
	dead         time.Duration // how long a killed leader is dead

	took time.Duration // from the first to the last fault
}

// TestScheduleOutlivesKills runs a schedule through kills of its leaders and moves of its slot. The numbers of its
// occurrences are 1 to N: all of them arrived, none under two webhook-ids, none passed.
func TestScheduleOutlivesKills(t *testing.T) {
	gated.Need(t, gated.Real)
	parallelIfShort(t)
	play := shapes(t)
	o := &outlasting{every: 200 * time.Millisecond, kills: 5, moves: 1, dead: 300 * time.Millisecond}
	if gated.Has(gated.Long) {
		o.kills, o.moves = 50, 3
	}
	cfg := shortShape()
	cfg.Shards = 2
	plan := siege.Plan{Name: "a schedule through kills and moves", Quiet: true, Play: o.play}
	play("kills", cfg, plan, func(t *testing.T, report *siege.Report) {
		t.Helper()
		struck(history.KillLeader, o.kills)(t, report)
		if outcome := report.Outcome("10"); outcome != check.Held {
			t.Errorf("whether occurrences are skipped or doubled: %s", outcome)
		}
		if came, want := occurrencesOf(report), int(o.took/o.every); came < want {
			t.Errorf("%d occurrences came within %v, at least %d should", came, o.took, want)
		}
	})
}

// occurrencesOf returns the number of occurrences that arrived.
func occurrencesOf(report *siege.Report) int {
	for _, f := range report.Findings {
		if f.Invariant == "10" {
			return f.Observed[0].Count
		}
	}
	return 0
}

func (o *outlasting) play(ctx context.Context, r *siege.Round) error {
	stop, done := make(chan struct{}), make(chan error, 1)
	go func() { done <- r.Load().Steady(context.WithoutCancel(ctx), o.every, stop) }()
	began := time.Now()
	err := o.strike(ctx, r)
	o.took = time.Since(began)
	close(stop)
	return errors.Join(err, <-done)
}

// strike kills leaders of the schedule's shard, and spreads the moves evenly among the kills.
func (o *outlasting) strike(ctx context.Context, r *siege.Round) error {
	for i := range o.kills {
		shard, err := r.Load().ShardOfSteady(ctx)
		if err != nil {
			return err
		}
		if err := r.Strike(ctx, history.KillLeader, o.dead, shard); err != nil {
			return err
		}
		if (i+1)*o.moves/o.kills > i*o.moves/o.kills {
			if err := move(ctx, r); err != nil {
				return err
			}
		}
	}
	return nil
}

// mostMoves is the number of moves of slots within which one moves the schedule.
const mostMoves = 12

// move moves slots until the schedule is on another shard.
func move(ctx context.Context, r *siege.Round) error {
	before, err := r.Load().ShardOfSteady(ctx)
	if err != nil {
		return err
	}
	for range mostMoves {
		if err := r.Strike(ctx, faults.SlotsMove, 0, 0); err != nil {
			return err
		}
		if after, err := r.Load().ShardOfSteady(ctx); err != nil || after != before {
			return err
		}
	}
	return fmt.Errorf("%d moves of slots left the schedule on shard %d", mostMoves, before)
}
