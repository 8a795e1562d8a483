package workload

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/belfryhq/belfry/chaos/history"
	"github.com/belfryhq/belfry/client"
)

// item is one line of a batch, and what it came to.
type item struct {
	operation
	history.Ending
}

func (it *item) final() bool { return final(it.Outcome, it.Answer) }

// batch sends the items through one node, in one request if they are a thousand at most, and records each line as a
// call.
func (c *caller) batch(ctx context.Context, node int, timeout time.Duration, items []*item) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	ctx, sent := countSends(ctx)
	calls := make([]history.Call, len(items))
	for i, it := range items {
		calls[i] = it.what
		calls[i].Batch, calls[i].Node = true, c.nodes[node].Name
	}
	first := c.rec.Begin(calls...)
	lines := func(yield func(client.Op) bool) {
		for _, it := range items {
			if !yield(it.line(client.WithKey(c.key(it.what.Op)))) {
				return
			}
		}
	}
	endings := make([]history.Ending, 0, len(items))
	for r := range c.clients[node].Batch(ctx, lines) {
		a := history.Answer{Status: r.Status, Revision: r.Revision, Cancel: string(r.Outcome)}
		outcome := judge(&a, r.Err, int(sent.Load()))
		endings = append(endings, history.Ending{Outcome: outcome, Answer: a})
	}
	c.rec.EndAll(first, endings)
	for i := range endings {
		items[i].Ending = endings[i]
	}
}

const batchLines = 40

// playBatch sends operations of every kind about new ids at once, some of them about the ids of earlier lines. Lines
// without a final answer are tried again one by one.
func (l *Load) playBatch(ctx context.Context, rng *rand.Rand, id string) {
	items := make([]*item, batchLines)
	for i := range items {
		items[i] = &item{operation: l.batchLine(rng, id, i)}
	}
	tries := rand.New(rand.NewPCG(rng.Uint64(), 0))
	l.caller.batch(ctx, l.anyNode(tries), l.timeout(tries), items)
	for _, it := range items {
		if !it.final() {
			l.perform(ctx, tries, it.operation)
		}
	}
}

// batchLine is the i-th line of a batch of one script: more than half of them make a task.
func (l *Load) batchLine(rng *rand.Rand, id string, i int) operation {
	own := fmt.Sprintf("%s.%d", id, i)
	earlier := fmt.Sprintf("%s.%d", id, rng.IntN(i+1))
	again := l.later(rng)
	switch n := rng.IntN(100); {
	case n < 55:
		return l.schedule(own, l.some(rng))
	case n < 62:
		return l.touch(own, again.delay, &again)
	case n < 76:
		return l.cancel(earlier)
	case n < 84:
		return l.touch(earlier, again.delay, nil)
	case n < 88:
		return l.touch(earlier, again.delay, &again)
	case n < 94:
		return l.fire(earlier)
	}
	return l.schedule(earlier, l.some(rng))
}
