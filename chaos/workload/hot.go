package workload

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"
)

const (
	hotCalls    = 150 // of one hot id, then another one takes its place: what must be judged as a whole must be small
	hotPulled   = 60  // of one that is pulled: its consumers' settles come on top
	hotAtOnce   = 3
	hotMaxDelay = 400 * time.Millisecond
)

// playHot makes some calls of one of the hot ids at once, in the i-th such script. They are not repeated: a repeat
// could come after so many other calls that its key is forgotten, and then it would rightly happen a second time.
func (l *Load) playHot(ctx context.Context, rng *rand.Rand, i int) {
	which, most := i%l.cfg.Hot, hotCalls
	pulled := l.cfg.Pulled > 0 && which%2 == 1
	if pulled {
		most = hotPulled
	}
	id := fmt.Sprintf("%shot-%d-%d", l.cfg.Prefix, which, i/l.cfg.Hot*hotAtOnce/most)
	var calls sync.WaitGroup
	for range hotAtOnce {
		op := l.hotCall(rng, id, pulled)
		node, timeout := l.anyNode(rng), l.timeout(rng)
		calls.Go(func() { l.caller.call(ctx, node, timeout, op) })
	}
	calls.Wait()
}

func (l *Load) hotCall(rng *rand.Rand, id string, pulled bool) operation {
	delay := time.Millisecond + time.Duration(rng.Int64N(int64(hotMaxDelay))).Round(time.Millisecond)
	want := task{delay: delay, pulled: pulled}
	switch n := rng.IntN(100); {
	case n < 30:
		return l.schedule(id, want)
	case n < 40:
		return l.patch(id, delay, rng.IntN(2) == 0)
	case n < 48:
		return l.touch(id, delay, nil)
	case n < 55:
		return l.touch(id, delay, &want)
	case n < 70:
		return l.cancel(id)
	case n < 75:
		return l.fire(id)
	default:
		return l.get(id)
	}
}
