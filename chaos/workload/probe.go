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

// Probe writes to every one of the shards all the time, until the context ends, so that the record shows when each
// takes a write. The writes touch tasks that are due long after the run, and that are cancelled in the end.
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

// probeIDs is how many tasks of a shard take turns, so that none is called too often to be judged.
const probeIDs = 8

// placeProbes schedules tasks until every shard holds enough: only the answer says where an id went. What a cluster
// that is being broken does not take is left out. The context's end is no error: there is nobody left to probe for.
// Those that were tried are told too: a task of which nobody knows may come in an hour.
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

// removeProbes cancels them, so that they do not come in a later run on the same cluster. One that is dead is not asked
// for each of them in turn until the time is up.
func (l *Load) removeProbes(ctx context.Context, ids []string) {
	ctx, cancel := context.WithTimeout(ctx, l.cfg.RetryFor)
	defer cancel()
	rng := rand.New(rand.NewPCG(l.cfg.Seed, 0))
	for _, id := range ids {
		l.player.Perform(ctx, rng, l.player.Cancel(id))
	}
}

// probe begins a write at every tick, whether or not those before are still waiting: one that was caught by a dead
// leader must not hide that the next would pass.
func (l *Load) probe(ctx context.Context, rng *rand.Rand, ids []string) {
	var writes sync.WaitGroup
	defer writes.Wait()
	tick := time.NewTicker(probeEvery)
	defer tick.Stop()
	for i := 0; ; i++ {
		node := rng.IntN(len(l.cfg.Nodes))
		op := l.player.Touch(ids[i%len(ids)], probeDelay, nil)
		writes.Go(func() { l.caller.call(context.WithoutCancel(ctx), node, probeTimeout, op) })
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}
