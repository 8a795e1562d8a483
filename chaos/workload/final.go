package workload

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"github.com/belfryhq/belfry/chaos/history"
)

const (
	finalPoll    = 200 * time.Millisecond
	finalTimeout = 10 * time.Second // of one read
	readers      = 16
	manyReads    = 1000
)

// Drain waits until every id that was called has come to rest: it is finished, absent, or due later than soon from
// now. It returns how many had not when the context ended. Of ids whose end the record shows it looks at sample only.
func (l *Load) Drain(ctx context.Context, soon time.Duration, sample int) int {
	busy := l.unexplained(sample)
	for len(busy) > manyReads && wait(ctx, time.Second) { // most come by themselves, and the record shows it
		before := len(busy)
		if busy = l.unexplained(sample); len(busy) >= before {
			break
		}
	}
	for {
		busy = l.stillBusy(ctx, busy, soon)
		if len(busy) == 0 || !wait(ctx, finalPoll) {
			return len(busy)
		}
	}
}

func (l *Load) stillBusy(ctx context.Context, ids []string, soon time.Duration) []string {
	var mu sync.Mutex
	var busy []string
	l.each(ids, func(rng *rand.Rand, id string) {
		outcome, a := l.caller.call(ctx, l.anyNode(rng), finalTimeout, l.get(id))
		absent := a.Status == http.StatusNotFound
		later := outcome == history.OK && a.FireAt > l.cfg.Recorder.Now().Add(soon)
		if absent || outcome == history.OK && finished(a.State) || later {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		busy = append(busy, id)
	})
	return busy
}

// ReadAll is the last thing of a run, when the cluster is whole and at rest: it reads every id once for certain, and
// up to sample of them from each node's own replica. Of ids whose end the record shows it reads sample only. An error
// says what could not be read.
func (l *Load) ReadAll(ctx context.Context, sample int) error {
	all := l.unexplained(sample)
	var mu sync.Mutex
	var failed error
	check := func(outcome history.Outcome, a history.Answer) {
		if final(outcome, a) {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		failed = fmt.Errorf("a final read failed: %s", a.Error)
	}
	l.each(all, func(rng *rand.Rand, id string) {
		op := l.get(id)
		op.what.Final = true
		check(l.caller.call(ctx, l.anyNode(rng), finalTimeout, op))
	})
	rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	l.each(all[:min(sample, len(all))], func(_ *rand.Rand, id string) {
		for node := range l.cfg.Nodes {
			op := l.getStale(id)
			op.what.Final = true
			check(l.caller.call(ctx, node, finalTimeout, op))
		}
	})
	return failed
}

// each calls do for all ids, several at a time.
func (l *Load) each(ids []string, do func(rng *rand.Rand, id string)) {
	turns := make(chan string)
	var workers sync.WaitGroup
	for w := range readers {
		rng := rand.New(rand.NewPCG(l.cfg.Seed, uint64(w)))
		workers.Go(func() {
			for id := range turns {
				do(rng, id)
			}
		})
	}
	for _, id := range ids {
		turns <- id
	}
	close(turns)
	workers.Wait()
}

// finished are the states that a task does not leave by itself.
func finished(state string) bool {
	return state == "delivered" || state == "dead" || state == "cancelled"
}
