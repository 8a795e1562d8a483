package chaos_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/belfryhq/belfry/chaos/history"
	"github.com/belfryhq/belfry/chaos/siege"
)

const (
	deadFor  = 1200 * time.Millisecond // longer than a failover
	between  = 800 * time.Millisecond  // pause between the mending of a fault and the next fault
	pauseFor = 2500 * time.Millisecond // longer than a failover, so that the old leader wakes up to a new one
)

// killLeaders kills the leader of each shard in turn, under load.
func killLeaders() siege.Plan {
	return siege.Plan{Name: "kill -9 of the leader of each shard in turn", Play: eachShard(0, history.KillLeader, deadFor)}
}

// pauseLeaders suspends the leaders of the first n shards with SIGSTOP, one after the other, under load. Each pause
// lasts longer than an election. It pauses the leaders of all shards if n < 1.
func pauseLeaders(n int) siege.Plan {
	return siege.Plan{Name: "SIGSTOP and SIGCONT of leaders", Play: eachShard(n, history.PauseLeader, pauseFor)}
}

// killEverything kills all nodes at once under load and starts them again. It does so the given number of times.
func killEverything(times int) siege.Plan {
	return siege.Plan{Name: "kill -9 of all nodes", Play: func(ctx context.Context, r *siege.Round) error {
		for range times {
			if err := strike(ctx, r, history.KillAll, deadFor, 0); err != nil {
				return err
			}
		}
		return nil
	}}
}

// inTurn plays scenarios one after the other in one run.
func inTurn(scenarios ...siege.Plan) siege.Plan {
	var names []string
	quiet := true
	for _, s := range scenarios {
		names = append(names, s.Name)
		quiet = quiet && s.Quiet
	}
	return siege.Plan{Name: strings.Join(names, ", "), Quiet: quiet, Play: func(ctx context.Context, r *siege.Round) error {
		for _, s := range scenarios {
			if err := s.Play(ctx, r); err != nil {
				return fmt.Errorf("%s: %w", s.Name, err)
			}
		}
		return nil
	}}
}

// killEverythingAfter schedules n tasks by batch, all due at one instant. It kills all nodes with the last
// acknowledgement, and starts them again a second after that instant. The time from now to that instant is ahead.
func killEverythingAfter(n int, ahead time.Duration) siege.Plan {
	return siege.Plan{
		Name: "kill -9 of all nodes after the last acknowledgement", Quiet: true,
		Play: func(ctx context.Context, r *siege.Round) error {
			due := time.Now().Add(ahead)
			if err := r.Load().Burst(ctx, n, due); err != nil {
				return err
			}
			return r.Strike(ctx, history.KillAll, time.Until(due)+time.Second, 0)
		},
	}
}

// eachShard strikes the leader of each of the first n shards once; of all shards if n < 1.
func eachShard(n int, kind string, hold time.Duration) func(ctx context.Context, r *siege.Round) error {
	return func(ctx context.Context, r *siege.Round) error {
		leaders, err := r.Leaders(ctx)
		if err != nil {
			return err
		}
		shards := slices.Sorted(maps.Keys(leaders))
		if n > 0 {
			shards = shards[:min(n, len(shards))]
		}
		for _, shard := range shards {
			if err := strike(ctx, r, kind, hold, shard); err != nil {
				return err
			}
		}
		return nil
	}
}

// strike strikes one fault, and then gives the cluster the pause between to recover.
func strike(ctx context.Context, r *siege.Round, kind string, hold time.Duration, shard uint32) error {
	if err := r.Strike(ctx, kind, hold, shard); err != nil {
		return err
	}
	return r.Pause(ctx, between)
}
