package chaos

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// Scenario is what a run breaks, and how.
type Scenario struct {
	Name string
	load bool // it wants the load beside it
	play func(ctx context.Context, r *Run) error
}

const (
	headStart = 1500 * time.Millisecond // of the load before the first fault, and after the last
	deadFor   = 1200 * time.Millisecond // longer than a failover
	between   = 800 * time.Millisecond  // from the mending of a fault to the next one
	pauseFor  = 2500 * time.Millisecond // longer than a failover, so that the old leader wakes to a new one
)

// KillLeaders kills the leader of each shard in turn, under load.
func KillLeaders() Scenario {
	return Scenario{"kill -9 of the leader of each shard in turn", true, func(ctx context.Context, r *Run) error {
		return r.eachShard(ctx, 0, func(shard uint32) error { return r.breaker.KillLeader(ctx, shard, deadFor) })
	}}
}

// PauseLeaders stops the leaders of the first n shards in their tracks, one after the other, for longer than an
// election takes, under load; n < 1: of all shards.
func PauseLeaders(n int) Scenario {
	return Scenario{"SIGSTOP and SIGCONT of leaders", true, func(ctx context.Context, r *Run) error {
		return r.eachShard(ctx, n, func(shard uint32) error { return r.breaker.PauseLeader(ctx, shard, pauseFor) })
	}}
}

// KillEverything kills all nodes at once under load, and starts them again, so many times.
func KillEverything(times int) Scenario {
	return Scenario{"kill -9 of all nodes", true, func(ctx context.Context, r *Run) error {
		for range times {
			if err := r.breaker.KillAll(ctx, r.rec.Now().Add(deadFor)); err != nil {
				return err
			}
			if err := pause(ctx, between); err != nil {
				return err
			}
		}
		return nil
	}}
}

// InTurn plays scenarios one after the other, in one run.
func InTurn(scenarios ...Scenario) Scenario {
	var names []string
	load := false
	for _, s := range scenarios {
		names = append(names, s.Name)
		load = load || s.load
	}
	return Scenario{strings.Join(names, ", "), load, func(ctx context.Context, r *Run) error {
		for _, s := range scenarios {
			if err := s.play(ctx, r); err != nil {
				return fmt.Errorf("%s: %w", s.Name, err)
			}
		}
		return nil
	}}
}

// KillEverythingAfter schedules n tasks by batch, all due at one instant some time ahead, kills all nodes with the last
// acknowledgement, and starts them again when everything is due.
func KillEverythingAfter(n int, ahead time.Duration) Scenario {
	return Scenario{"kill -9 of all nodes after the last acknowledgement", false, func(ctx context.Context, r *Run) error {
		due := r.rec.Now().Add(ahead)
		if err := r.load.Burst(ctx, n, due.Time()); err != nil {
			return err
		}
		return r.breaker.KillAll(ctx, due.Add(time.Second))
	}}
}

// perform plays a scenario. A load that it wants has a head start, and runs on for as long after it.
func (r *Run) perform(ctx context.Context, s Scenario) error {
	if !s.load {
		return s.play(ctx, r)
	}
	stop := make(chan struct{})
	var load sync.WaitGroup
	load.Go(func() { r.load.Run(ctx, stop) })
	defer load.Wait()
	defer close(stop)
	if err := pause(ctx, headStart); err != nil {
		return err
	}
	if err := s.play(ctx, r); err != nil {
		return err
	}
	return pause(ctx, headStart)
}

// eachShard strikes the first n shards once each, all if n < 1, waiting a little after each.
func (r *Run) eachShard(ctx context.Context, n int, strike func(shard uint32) error) error {
	leaders, err := r.breaker.Leaders(ctx)
	if err != nil {
		return err
	}
	shards := slices.Sorted(maps.Keys(leaders))
	if n > 0 {
		shards = shards[:min(n, len(shards))]
	}
	for _, shard := range shards {
		if err := strike(shard); err != nil {
			return err
		}
		if err := pause(ctx, between); err != nil {
			return err
		}
	}
	return nil
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
