package workload

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/belfryhq/belfry/chaos/history"
	"github.com/belfryhq/belfry/chaos/load"
)

const (
	probeDelay   = time.Hour
	probeEvery   = 100 * time.Millisecond
	probeTimeout = time.Second
)

// Probe writes to every shard ten times a second until ctx ends, so that the record shows when each shard takes a
// write. The writes touch tasks that are due long after the run. Probe cancels these tasks in the end. An error means
// that the tasks could not be placed.
func (l *Load) Probe(ctx context.Context, shards int) error {
	ids, tried, err := l.placeProbes(ctx, shards)
	defer l.removeProbes(context.WithoutCancel(ctx), tried)
	if err != nil {
		return err
	}
	var probes sync.WaitGroup
	for shard, of := range ids {
		probes.Go(func() { l.probe(ctx, rand.New(rand.NewPCG(l.cfg.Seed, uint64(shard))), of) })
	}
	probes.Wait()
	return nil
}

// probeIDs is how many tasks of a shard take turns, so that no id has too many calls to be judged.
const probeIDs = 8

// placeProbes schedules tasks until every shard holds enough of them, for only the answer shows the shard of an id.
// Schedules that a cluster in trouble does not take are left out. The end of ctx is no error: the run is over then.
// tried holds every id that was tried, because a task that is not cancelled may be delivered an hour later.
func (l *Load) placeProbes(ctx context.Context, shards int) (ids map[uint32][]string, tried []string, err error) {
	rng := rand.New(rand.NewPCG(l.cfg.Seed, 0))
	ids = map[uint32][]string{}
	for left := shards * probeIDs; left > 0; {
		id := fmt.Sprintf("%sprobe-%d", l.cfg.Prefix, len(tried))
		tried = append(tried, id)
		answer, ok := l.player.New(ctx, rng, id, load.Task{Delay: probeDelay})
		switch {
		case ctx.Err() != nil:
			return ids, tried, nil
		case !ok && load.Final(history.Failed, answer):
			return ids, tried, fmt.Errorf("placing %s: %s", id, answer.Error)
		case len(tried) > 100*shards*probeIDs:
			return ids, tried, fmt.Errorf("%d ids fell on only %d of %d shards", len(tried), len(ids), shards)
		case !ok:
			continue
		}
		if len(ids[answer.Shard]) < probeIDs {
			left--
		}
		ids[answer.Shard] = append(ids[answer.Shard], id)
	}
	return ids, tried, nil
}

// removeProbes cancels the probes, so that they do not arrive during a later run on the same cluster. RetryFor bounds
// all cancels together, so that a dead cluster does not cost RetryFor for each id.
func (l *Load) removeProbes(ctx context.Context, ids []string) {
	ctx, cancel := context.WithTimeout(ctx, l.cfg.RetryFor)
	defer cancel()
	rng := rand.New(rand.NewPCG(l.cfg.Seed, 0))
	for _, id := range ids {
		l.player.Perform(ctx, rng, l.player.Cancel(id))
	}
}

// probe begins a write at every tick, whether or not earlier writes still wait. A write that is stuck at a dead leader
// must not hide that the next one would pass.
func (l *Load) probe(ctx context.Context, rng *rand.Rand, ids []string) {
	var writes sync.WaitGroup
	defer writes.Wait()
	tick := time.NewTicker(probeEvery)
	defer tick.Stop()
	for i := 0; ; i++ {
		node := l.anyNode(rng)
		op := l.player.Touch(ids[i%len(ids)], probeDelay, nil)
		writes.Go(func() { l.caller.call(context.WithoutCancel(ctx), node, probeTimeout, op) })
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}
