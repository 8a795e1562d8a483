package workload

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/belfryhq/belfry/chaos/history"
)

// raceSpread is by how much the cancels of a race may change places with each other.
const raceSpread = 80 * time.Millisecond

// Race schedules n tasks, one due after the other from begin on until spread later, and cancels each about so long
// after it is due: log order decides which came first. No two races of a load have one name.
func (l *Load) Race(ctx context.Context, name string, n int, begin time.Time, spread, after time.Duration) {
	items := make([]*item, n)
	due := make([]history.Instant, n)
	for i := range items {
		at := begin.Add(spread * time.Duration(i) / time.Duration(n))
		due[i] = l.cfg.Recorder.Instant(at)
		items[i] = &item{operation: l.schedule(fmt.Sprintf("%srace-%s-%d", l.cfg.Prefix, name, i), task{fireAt: at})}
	}
	l.caller.batch(ctx, 0, burstTimeout, items)
	var cancels sync.WaitGroup
	defer cancels.Wait()
	for i, it := range items {
		rng := rand.New(rand.NewPCG(l.cfg.Seed, uint64(i)))
		at := due[i].Add(after + time.Duration(rng.Int64N(int64(raceSpread))) - raceSpread/2)
		cancels.Go(func() {
			if wait(ctx, at.Sub(l.cfg.Recorder.Now())) {
				l.cancelNow(ctx, rng, it.what.ID)
			}
		})
	}
}
