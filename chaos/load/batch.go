package load

import (
	"context"
	"fmt"
	"math/rand/v2"
)

// storm schedules many tasks in one call, all due at the same instant, so that their deliveries wait for each other.
func storm(ctx context.Context, p *Player, rng *rand.Rand, id string) {
	t := p.at(rng)
	t.Hold = p.hold(rng)
	ops := make([]Operation, 5+rng.IntN(60))
	for i := range ops {
		ops[i] = p.Schedule(fmt.Sprintf("%s.%d", id, i), t)
	}
	p.batch(ctx, rng, ops)
}

const batchLines = 40

// batch sends operations of several kinds about new ids in one call. Some lines are about the ids of earlier lines.
func batch(ctx context.Context, p *Player, rng *rand.Rand, id string) {
	ops := make([]Operation, batchLines)
	for i := range ops {
		ops[i] = p.batchLine(rng, id, i)
	}
	p.batch(ctx, rng, ops)
}

// batch tries operations in one call, and repeats those without a final answer one by one.
func (p *Player) batch(ctx context.Context, rng *rand.Rand, ops []Operation) {
	tries := branch(rng)
	endings := p.cfg.Driver.Batch(ctx, tries, ops)
	for i, op := range ops {
		if i >= len(endings) || !Final(endings[i].Outcome, endings[i].Answer) {
			p.Perform(ctx, tries, op)
		}
	}
}

// batchLine draws line i of a batch. More than half of the lines schedule a task with an id of its own.
func (p *Player) batchLine(rng *rand.Rand, id string, i int) Operation {
	own := fmt.Sprintf("%s.%d", id, i)
	earlier := fmt.Sprintf("%s.%d", id, rng.IntN(i+1))
	again := p.later(rng)
	switch n := rng.IntN(100); {
	case n < 55:
		return p.Schedule(own, p.at(rng))
	case n < 62:
		return p.Touch(own, again.Delay, &again)
	case n < 76:
		return p.Cancel(earlier)
	case n < 84:
		return p.Touch(earlier, again.Delay, nil)
	case n < 88:
		return p.Touch(earlier, again.Delay, &again)
	case n < 94:
		return p.Fire(earlier)
	}
	return p.Schedule(earlier, p.at(rng))
}
