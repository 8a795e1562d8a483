package workload

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/belfryhq/belfry/chaos/load"
)

// chasePause keeps those who chase from being a load.
const chasePause = 10 * time.Millisecond

// Chase moves n tasks again and again until stop is closed, and reads each after each move through any node: a read
// that began after a move was answered must show it, however long it took. No two chases of a load have one name.
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
