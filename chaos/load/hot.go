package load

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"
)

const (
	hotCalls  = 150 // calls of one hot id; then a new id takes its place, since an id's history is judged as a whole
	hotPulled = 60  // calls of a pulled hot id: the settles of its consumers come on top
	hotAtOnce = 3   // calls of a hot id at the same time
)

// playHot makes several calls of one hot id at once. i counts the hot scripts. The calls are not repeated: a repeat
// could come when many other calls have made the node forget its key, and would then rightly happen a second time.
func (p *Player) playHot(ctx context.Context, rng *rand.Rand, i int) {
	which, most, queue := i%p.cfg.Hot, hotCalls, ""
	if p.cfg.HotQueue != "" && which%2 == 1 {
		most, queue = hotPulled, p.cfg.HotQueue
	}
	id := fmt.Sprintf("%shot-%d-%d", p.cfg.Prefix, which, i/p.cfg.Hot*hotAtOnce/most)
	var calls sync.WaitGroup
	for range hotAtOnce {
		op, tries := p.hotCall(rng, id, queue), branch(rng)
		calls.Go(func() { p.cfg.Driver.Try(ctx, tries, op) })
	}
	calls.Wait()
}

func (p *Player) hotCall(rng *rand.Rand, id, queue string) Operation {
	delay := time.Millisecond + upTo(rng, p.cfg.Draw.HotDelay).Round(time.Millisecond)
	want := Task{Delay: delay, Queue: queue}
	switch n := rng.IntN(100); {
	case n < 30:
		return p.Schedule(id, want)
	case n < 40:
		return p.Patch(id, delay, rng.IntN(2) == 0)
	case n < 48:
		return p.Touch(id, delay, nil)
	case n < 55:
		return p.Touch(id, delay, &want)
	case n < 70:
		return p.Cancel(id)
	case n < 75:
		return p.Fire(id)
	default:
		return p.Get(id)
	}
}
