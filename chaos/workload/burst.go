package workload

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/belfryhq/belfry/chaos/history"
)

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
	items := make([]*item, n)
	for i := range items {
		items[i] = &item{operation: l.schedule(fmt.Sprintf("%sburst-%d", l.cfg.Prefix, first+i), task{fireAt: due})}
	}
	for {
		l.caller.batch(ctx, node, burstTimeout, items)
		items = unanswered(items)
		if len(items) == 0 {
			return nil
		}
		if items[0].final() || !wait(ctx, maxPause) {
			return fmt.Errorf("%s: %s", items[0].what.ID, items[0].Answer.Error)
		}
	}
}

// unanswered keeps the items that are not acknowledged.
func unanswered(items []*item) []*item {
	var left []*item
	for _, it := range items {
		if it.Outcome != history.OK {
			left = append(left, it)
		}
	}
	return left
}
