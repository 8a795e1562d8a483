package siege

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/belfryhq/belfry/chaos/faults"
)

// Aimed is a play that kills nodes at the steps of moves. It moves replicas until each aim about them was hit, and then
// slots. The nodes run with BELFRY_STEP_PAUSE, so that short steps can be seen from outside.
type Aimed struct {
	Aims     *faults.Aims
	Pause    time.Duration // BELFRY_STEP_PAUSE of the nodes
	Patience time.Duration // no move of replicas, or of slots, begins after this time
}

// The times of an aimed kill.
const (
	aimedDead  = 300 * time.Millisecond // shortest time that the node is dead,
	aimedDelay = 700 * time.Millisecond // and most that is added to it
)

// Play is the play of a Plan.
func (a Aimed) Play(ctx context.Context, r *Round) error {
	return errors.Join(
		a.phase(ctx, r, faults.Replica, alternately(faults.NodeDrains)),
		a.phase(ctx, r, faults.Slots, slotChanges),
	)
}

// mostSplits is the number of splits of a play, since each makes a shard that stays.
const mostSplits = 4

// slotChanges begins with splits, and goes on with moves between the shards.
func slotChanges(yield func(string) bool) {
	for i := 0; ; i++ {
		kind := faults.SlotsMove
		if i%3 == 0 && i/3 < mostSplits {
			kind = faults.ShardSplits
		}
		if !yield(kind) {
			return
		}
	}
}

// phase moves things by the kinds of changes in turn until each aim about them was hit.
func (a Aimed) phase(ctx context.Context, r *Round, moves string, kinds func(func(string) bool)) error {
	began := time.Now()
	for kind := range kinds {
		if len(a.Aims.Left(moves)) == 0 || time.Since(began) > a.Patience || ctx.Err() != nil {
			return nil
		}
		if err := a.change(ctx, r, moves, kind); err != nil {
			return err
		}
	}
	return nil
}

// change strikes a change of the shape and, while it is under way, aimed kills.
func (a Aimed) change(ctx context.Context, r *Round, moves, kind string) error {
	killing, stop := context.WithCancel(ctx)
	var killed error
	done := make(chan struct{})
	go func() {
		defer close(done)
		killed = a.kill(killing, r, moves)
	}()
	err := r.Strike(ctx, kind, 0, 0)
	stop()
	<-done
	return errors.Join(err, killed)
}

// killsEach is the number of kills in one change. A move of slots begins anew after most of them, and would not end if
// they did not.
const killsEach = 4

// kill strikes aimed kills, one after the other, while one is wanted. Between two of them all shards have leaders.
func (a Aimed) kill(ctx context.Context, r *Round, moves string) error {
	for range killsEach {
		if len(a.Aims.Left(moves)) == 0 {
			return nil
		}
		if _, err := r.Leaders(ctx); err != nil {
			return nil // the change is over
		}
		rng := rand.New(rand.NewPCG(r.seed, r.planned.Add(1)))
		on := r.target(rng)
		on.Hold = aimedDead + time.Duration(rng.Int64N(int64(aimedDelay)))
		if err := faults.KillAimed(ctx, on, a.Aims, a.Pause); err != nil && !errors.Is(err, faults.ErrBusy) {
			return err
		}
	}
	return nil
}
