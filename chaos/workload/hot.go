package workload

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/belfryhq/belfry/chaos/history"
)

const (
	hotCalls    = 150 // of one hot id, then another one takes its place: what must be judged as a whole must be small
	hotAtOnce   = 3
	hotMaxDelay = 400 * time.Millisecond
)

// playHot makes some calls of one of the hot ids at once, in the i-th such script. They are not repeated: a repeat
// could come after so many other calls that its key is forgotten, and then it would rightly happen a second time.
func (l *Load) playHot(ctx context.Context, rng *rand.Rand, i int) {
	id := fmt.Sprintf("%shot-%d-%d", l.cfg.Prefix, i%l.cfg.Hot, i/l.cfg.Hot*hotAtOnce/hotCalls)
	var calls sync.WaitGroup
	for range hotAtOnce {
		what, do := l.hotCall(rng, id)
		node, timeout := rng.IntN(len(l.cfg.Nodes)), l.timeout(rng)
		calls.Go(func() { l.caller.call(ctx, node, timeout, what, do) })
	}
	calls.Wait()
}

func (l *Load) hotCall(rng *rand.Rand, id string) (history.Call, send) {
	delay := time.Millisecond + time.Duration(rng.Int64N(int64(hotMaxDelay))).Round(time.Millisecond)
	switch n := rng.IntN(100); {
	case n < 30:
		return l.schedule(id, task{delay: delay})
	case n < 40:
		return l.patch(id, delay, rng.IntN(2) == 0)
	case n < 55:
		return l.touch(id, delay, rng.IntN(2) == 0)
	case n < 70:
		return l.cancel(id)
	case n < 75:
		return l.fire(id)
	default:
		return l.get(id)
	}
}
