package workload

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/belfryhq/belfry/chaos/load"
)

// bulkAtOnce is how many batches may wait for their answers at the same time. Most batches have a line for every
// shard, so a shard without a leader holds them up.
const bulkAtOnce = 36

// The pauses between tries of a bulk batch are long: each try of hundreds of lines makes hundreds of records.
const (
	bulkMinPause = 100 * time.Millisecond
	bulkMaxPause = 2 * time.Second
)

// bulkRequest is the largest number of bulk tasks in one request to the receiver.
const bulkRequest = 100

// Bulk schedules plain tasks by batch at a high rate, and cancels a few of them by later batches, until stop is closed
// or ctx ends. It returns when the batches that were sent are answered; the end of ctx cuts them short. Batch n is the
// same in each run with the seed. An error means that the queues of the bulk could not be made.
func (l *Load) Bulk(ctx context.Context, stop <-chan struct{}) error {
	if err := l.putBulkQueues(ctx); err != nil {
		return err
	}
	batchesPerSecond := max(1, float64(l.cfg.BulkPerSecond)/float64(l.cfg.BulkLines))
	tick := time.NewTicker(time.Duration(float64(time.Second) / batchesPerSecond))
	defer tick.Stop()
	room := make(chan struct{}, bulkAtOnce)
	var batches sync.WaitGroup
	defer batches.Wait()
	for n := uint64(0); ; n++ {
		select {
		case <-ctx.Done():
			return nil
		case <-stop:
			return nil
		case <-tick.C:
		}
		select {
		case <-ctx.Done():
			return nil
		case <-stop:
			return nil
		case room <- struct{}{}:
		}
		batches.Go(func() {
			defer func() { <-room }()
			l.bulkBatch(ctx, n)
		})
	}
}

// bulkBatch sends a batch, and repeats the lines without a final answer until all have one or the time is up.
func (l *Load) bulkBatch(ctx context.Context, n uint64) {
	rng := rand.New(rand.NewPCG(l.cfg.Seed, bulkBatches+n))
	left := l.bulkItems(rng, n)
	end := l.cfg.Recorder.Now().Add(l.cfg.RetryFor)
	pause := bulkMinPause
	for {
		left = without(left, l.caller.batch(ctx, l.anyNode(rng), l.timeout(rng), left), load.Final)
		if len(left) == 0 || l.cfg.Recorder.Now() > end || !load.Wait(ctx, pause) {
			return
		}
		pause = min(2*pause, bulkMaxPause)
	}
}

// bulkItems returns the lines of batch n: new tasks, and cancels of tasks of one of the three batches before.
func (l *Load) bulkItems(rng *rand.Rand, n uint64) []load.Operation {
	lines := l.bulkLines(n)
	items := make([]load.Operation, 0, lines+lines*l.cfg.BulkCancelled/100)
	for i := range lines {
		items = append(items, l.bulkTask(rng, l.bulkID(n, i)))
	}
	if back := 1 + rng.Uint64N(3); back <= n {
		victims := l.bulkLines(n - back)
		for range victims * l.cfg.BulkCancelled / 100 {
			items = append(items, l.player.Cancel(l.bulkID(n-back, rng.IntN(victims))))
		}
	}
	return items
}

// bulkLines returns how many tasks batch n makes: from half to one and a half times Config.BulkLines.
func (l *Load) bulkLines(n uint64) int {
	rng := rand.New(rand.NewPCG(l.cfg.Seed, bulkSizes+n))
	return max(1, l.cfg.BulkLines/2+rng.IntN(l.cfg.BulkLines))
}

func (l *Load) bulkID(batch uint64, i int) string {
	return fmt.Sprintf("%sbulk-%d-%d", l.cfg.Prefix, batch, i)
}

// bulkTask returns the schedule of a task with as few settings as possible.
func (l *Load) bulkTask(rng *rand.Rand, id string) load.Operation {
	t := load.Task{FireAt: l.due(rng), Queue: l.cfg.pullQueue()}
	if rng.IntN(100) < l.cfg.BulkPushed {
		t.Queue = l.cfg.pushQueue()
	}
	return l.player.Schedule(id, t)
}
