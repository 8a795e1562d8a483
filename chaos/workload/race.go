package workload

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/belfryhq/belfry/chaos/history"
	"github.com/belfryhq/belfry/chaos/load"
)

// raceSpread is the range over which the cancels of a race are spread around their times, so that they can change
// places.
const raceSpread = 80 * time.Millisecond

// Race schedules n tasks, due one after the other from begin until spread later, and cancels each about after its due
// time by the given duration. The order in the log decides whether the start of a task or its cancel came first. Each
// race of a load needs a name of its own.
func (l *Load) Race(ctx context.Context, name string, n int, begin time.Time, spread, after time.Duration) {
	ops := make([]load.Operation, n)
	due := make([]history.Instant, n)
	for i := range ops {
		at := begin.Add(spread * time.Duration(i) / time.Duration(n))
		due[i] = l.cfg.Recorder.Instant(at)
		ops[i] = l.player.Schedule(fmt.Sprintf("%srace-%s-%d", l.cfg.Prefix, name, i), load.Task{FireAt: at})
	}
	l.caller.batch(ctx, 0, burstTimeout, ops)
	var cancels sync.WaitGroup
	defer cancels.Wait()
	for i, op := range ops {
		rng := rand.New(rand.NewPCG(l.cfg.Seed, uint64(i)))
		at := due[i].Add(after + time.Duration(rng.Int64N(int64(raceSpread))) - raceSpread/2)
		cancels.Go(func() {
			if load.Wait(ctx, at.Sub(l.cfg.Recorder.Now())) {
				l.player.Perform(ctx, rng, l.player.Cancel(op.What.ID))
			}
		})
	}
}
