package siege

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/belfryhq/belfry/chaos/faults"
)

const (
	minHold  = 300 * time.Millisecond
	maxHold  = 5 * time.Second
	maxPause = 2 * time.Second // longest pause of a striker between two faults
	busyWait = 200 * time.Millisecond
)

// strikeAll runs all strikers until the round's time is up, and returns when all their faults are mended.
func (r *Round) strikeAll(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, r.siege.cfg.Strike)
	defer cancel()
	if len(r.siege.kinds) == 0 {
		<-ctx.Done() // the load runs alone
		return nil
	}
	failed := make([]error, r.siege.cfg.Strikers)
	var strikers sync.WaitGroup
	for i := range failed {
		rng := rand.New(rand.NewPCG(r.seed, uint64(i+1)))
		strikers.Go(func() { failed[i] = r.strikeOn(ctx, rng) })
	}
	strikers.Wait()
	return errors.Join(failed...)
}

// strikeOn strikes one fault after the other. Each fault has its own source of choices. The number of choices that a
// fault makes therefore does not change the choices after it.
func (r *Round) strikeOn(ctx context.Context, rng *rand.Rand) error {
	for faults.Wait(ctx, time.Duration(rng.Int64N(int64(maxPause)))) {
		kind := choose(rng, r.siege.kinds)
		on := r.target(rand.New(rand.NewPCG(rng.Uint64(), 0)))
		on.Hold = minHold + time.Duration(rng.Int64N(int64(maxHold-minHold)))
		switch err := kind.Strike(ctx, on); {
		case errors.Is(err, faults.ErrBusy):
			faults.Wait(ctx, busyWait)
		case err != nil:
			if err := r.noteSurvival(kind.Name, err); err != nil {
				return err
			}
		}
	}
	return nil
}

// noteSurvival notes a node that runs on after a fault that must end it. It returns any other error of a fault.
func (r *Round) noteSurvival(kind string, err error) error {
	var survival *faults.SurvivalError
	if errors.As(err, &survival) {
		r.note(&r.survivors, fmt.Sprintf("%s: %v", kind, err))
		return nil
	}
	return fmt.Errorf("%s: %w", kind, err)
}

func (r *Round) target(rng *rand.Rand) faults.Target {
	return faults.Target{Stand: r.siege.stand, Recorder: r.rec, Receiver: r.siege.receiver, Rand: rng}
}

// choose picks a kind by weight.
func choose(rng *rand.Rand, kinds []faults.Kind) faults.Kind {
	total := 0
	for _, k := range kinds {
		total += k.Weight
	}
	n := rng.IntN(total)
	for _, k := range kinds {
		if n -= k.Weight; n < 0 {
			return k
		}
	}
	panic("weights do not add up")
}
