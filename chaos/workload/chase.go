package workload

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/belfryhq/belfry/chaos/load"
)

// chasePause is the pause between two moves, so that chases are no load on the cluster.
const chasePause = 10 * time.Millisecond

// Chase moves n tasks again and again until stop is closed or ctx ends, and reads each task after each move through
// any node. A read that began after a move was answered must show the move, however long the read took. Each chase of
// a load needs a name of its own.
func (l *Load) Chase(ctx context.Context, name string, n int, stop <-chan struct{}) {
	var chasers sync.WaitGroup
	for i := range n {
		rng := rand.New(rand.NewPCG(l.cfg.Seed, uint64(i)))
		chasers.Go(func() { l.chase(ctx, rng, fmt.Sprintf("%schase-%s-%d", l.cfg.Prefix, name, i), stop) })
	}
	chasers.Wait()
}

func (l *Load) chase(ctx context.Context, rng *rand.Rand, id string, stop <-chan struct{}) {
	l.player.New(ctx, rng, id, load.Task{Delay: probeDelay})
	for load.Wait(ctx, chasePause) {
		select {
		case <-stop:
			return
		default:
		}
		l.player.Perform(ctx, rng, l.player.Touch(id, probeDelay, nil))
		l.player.Perform(ctx, rng, l.player.Get(id))
	}
}
