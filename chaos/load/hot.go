package load

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"
)

const (
	hotCalls  = 150 // of one hot id, then another one takes its place: what must be judged as a whole must be small
	hotPulled = 60  // of one that is pulled: its consumers' settles come on top
	hotAtOnce = 3
)

// playHot makes some calls of one of the hot ids at once, in the i-th such script. They are not repeated: a repeat
// could come after so many other calls that its key is forgotten, and then it would rightly happen a second time.
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
