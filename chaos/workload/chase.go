package workload

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"
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
	l.new(ctx, rng, id, task{delay: probeDelay})
	for wait(ctx, chasePause) {
		select {
		case <-stop:
			return
		default:
		}
		l.perform(ctx, rng, l.touch(id, probeDelay, nil))
		l.perform(ctx, rng, l.get(id))
	}
}
