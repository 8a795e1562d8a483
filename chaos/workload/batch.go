package workload

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/belfryhq/belfry/chaos/history"
	"github.com/belfryhq/belfry/client"
)

// item is one line of a batch.
type item struct {
	what    history.Call
	task    client.Task
	alone   send // the same operation as a call of its own
	outcome history.Outcome
	answer  history.Answer
}

func (l *Load) item(id string, t task) item {
	what, do := l.schedule(id, t)
	return item{what: what, task: l.build(id, what.Op, t), alone: do}
}

// batch sends the items through one node and records each line as a call.
func (c *caller) batch(ctx context.Context, node int, timeout time.Duration, items []item) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	ctx, sent := countSends(ctx)
	numbers := make([]int, 0, len(items))
	lines := func(yield func(client.Op) bool) {
		for _, it := range items {
			what := it.what
			what.Batch, what.Node = true, c.nodes[node].Name
			numbers = append(numbers, c.rec.Begin(what))
			if !yield(client.ScheduleOp(it.task, client.WithKey(c.key(what.Op)))) {
				return
			}
		}
	}
	i := 0
	for r := range c.clients[node].Batch(ctx, lines) {
		answer := history.Answer{Status: r.Status, Revision: r.Revision}
		items[i].outcome = judge(&answer, r.Err, int(sent.Load()))
		items[i].answer = answer
		c.rec.End(numbers[i], items[i].outcome, answer)
		i++
	}
}

const (
	burstLines   = 1000 // a request, which is a chunk of the client's
	burstStreams = 4
	burstTimeout = 30 * time.Second
)

// Burst schedules n tasks by batch, all due at one instant, through all nodes at once, and returns when all are
// acknowledged.
func (l *Load) Burst(ctx context.Context, n int, due time.Time) error {
	chunks := make(chan int)
	failed := make([]error, burstStreams)
	var streams sync.WaitGroup
	for s := range burstStreams {
		streams.Go(func() {
			for first := range chunks {
				if failed[s] == nil {
					failed[s] = l.burst(ctx, s%len(l.cfg.Nodes), first, min(burstLines, n-first), due)
				}
			}
		})
	}
	for first := 0; first < n; first += burstLines {
		chunks <- first
	}
	close(chunks)
	streams.Wait()
	return errors.Join(failed...)
}

func (l *Load) burst(ctx context.Context, node, first, n int, due time.Time) error {
	items := make([]item, n)
	for i := range items {
		items[i] = l.item(fmt.Sprintf("%sburst-%d", l.cfg.Prefix, first+i), task{fireAt: due})
	}
	for len(items) > 0 {
		l.caller.batch(ctx, node, burstTimeout, items)
		items = unanswered(items)
		if len(items) == 0 {
			return nil
		}
		if final(items[0].outcome, items[0].answer) || !wait(ctx, maxPause) {
			return fmt.Errorf("%s: %s", items[0].what.ID, items[0].answer.Error)
		}
	}
	return nil
}

// unanswered keeps the items that are not acknowledged.
func unanswered(items []item) []item {
	var left []item
	for _, it := range items {
		if it.outcome != history.OK {
			left = append(left, it)
		}
	}
	return left
}
