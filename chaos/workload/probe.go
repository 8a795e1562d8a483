package workload

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"
)

const (
	probeDelay   = time.Hour
	probeEvery   = 100 * time.Millisecond
	probeTimeout = time.Second
)

// Probe writes to every one of the shards all the time, until the context ends, so that the record shows when each
// takes a write. The writes touch a task that is due long after the run.
func (l *Load) Probe(ctx context.Context, shards int) error {
	ids, err := l.placeProbes(ctx, shards)
	if err != nil {
		return err
	}
	var probes sync.WaitGroup
	for shard, id := range ids {
		probes.Go(func() { l.probe(ctx, rand.New(rand.NewPCG(l.cfg.Seed, uint64(shard))), id) })
	}
	probes.Wait()
	return nil
}

// placeProbes schedules tasks until every shard holds one: only the answer says where an id went.
func (l *Load) placeProbes(ctx context.Context, shards int) (map[uint32]string, error) {
	rng := rand.New(rand.NewPCG(l.cfg.Seed, 0))
	ids := map[uint32]string{}
	for i := 0; len(ids) < shards; i++ {
		id := fmt.Sprintf("%sprobe-%d", l.cfg.Prefix, i)
		answer, ok := l.new(ctx, rng, id, task{delay: probeDelay})
		switch {
		case !ok:
			return nil, fmt.Errorf("placing %s: %s", id, answer.Error)
		case i > 100*shards:
			return nil, fmt.Errorf("%d ids fell on only %d of %d shards", i, len(ids), shards)
		}
		if _, taken := ids[answer.Shard]; !taken {
			ids[answer.Shard] = id
		}
	}
	return ids, nil
}

// probe begins a write at every tick, whether or not those before are still waiting: one that was caught by a dead
// leader must not hide that the next would pass.
func (l *Load) probe(ctx context.Context, rng *rand.Rand, id string) {
	var writes sync.WaitGroup
	defer writes.Wait()
	tick := time.NewTicker(probeEvery)
	defer tick.Stop()
	for {
		node := rng.IntN(len(l.cfg.Nodes))
		op := l.touch(id, probeDelay, nil)
		writes.Go(func() { l.caller.call(context.WithoutCancel(ctx), node, probeTimeout, op) })
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}
