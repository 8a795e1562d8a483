package workload

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/belfryhq/belfry/chaos/history"
	"github.com/belfryhq/belfry/chaos/load"
)

const (
	burstLines   = 1000 // lines of a request: the chunk of the client
	burstStreams = 4
	burstTimeout = 30 * time.Second
)

// Burst schedules n tasks by batch, all due at the same instant, in four streams with one node each. It returns when
// all are acknowledged, or with the errors of the streams that failed.
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
	ops := make([]load.Operation, n)
	for i := range ops {
		ops[i] = l.player.Schedule(fmt.Sprintf("%sburst-%d", l.cfg.Prefix, first+i), load.Task{FireAt: due})
	}
	for {
		endings := l.caller.batch(ctx, node, burstTimeout, ops)
		for i, e := range endings {
			if e.Outcome != history.OK && load.Final(e.Outcome, e.Answer) {
				return fmt.Errorf("%s: %s", ops[i].What.ID, e.Answer.Error)
			}
		}
		ops = without(ops, endings, load.Final)
		if len(ops) == 0 {
			return nil
		}
		if !load.Wait(ctx, maxPause) {
			return fmt.Errorf("%s: %w", ops[0].What.ID, context.Cause(ctx))
		}
	}
}
