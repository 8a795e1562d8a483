package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/belfryhq/belfry/deploy/procstat"
)

// Numbers of shards of the two clusters. The clusters differ in nothing else, so the difference in memory is that of
// the additional replicas.
const (
	fewShards  = 1
	manyShards = 49
)

// Load that fills all buffers of every shard, even with many shards.
const (
	usedTasks   = 50_000
	usedPayload = 1000
)

// memory prints the memory of a replica without tasks, fresh and after use. Both clusters hold the same tasks, so the
// difference contains none. Log caches hardly count: some time after use they hold one entry each.
func memory(ctx context.Context, cfg config) error {
	few, err := footprintsWith(ctx, cfg, fewShards)
	if err != nil {
		return err
	}
	many, err := footprintsWith(ctx, cfg, manyShards)
	if err != nil {
		return err
	}
	perReplica := func(many, few footprint) footprint {
		const more = manyShards - fewShards
		return footprint{(many.resident - few.resident) / more, (many.held - few.held) / more}
	}
	group, used := perReplica(many.fresh, few.fresh), perReplica(many.used, few.used)
	for _, p := range []struct {
		name string
		footprint
	}{
		{"group_memory, fresh", group}, {"group_memory, used", used},
		{"node_memory", footprint{few.fresh.resident - fewShards*group.resident, few.fresh.held - fewShards*group.held}},
	} {
		fmt.Printf("    %-24s %v\n", p.name, p.footprint)
	}
	return nil
}

// footprint is the memory of a node in bytes: resident pages, and the memory that counts against the node's limit
// (held). A buffer that was never filled counts as held but not as resident.
type footprint struct{ resident, held float64 }

func (f footprint) String() string {
	return fmt.Sprintf("%7.2f MB resident, %7.2f MB held", f.resident/1e6, f.held/1e6)
}

// footprints are the footprints of a node before and after use.
type footprints struct{ fresh, used footprint }

func footprintsWith(ctx context.Context, cfg config, shards int) (f footprints, err error) {
	s, err := startWith(ctx, cfg, shards)
	if err != nil {
		return f, err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	if f.fresh, err = s.footprint(ctx, cfg.idle); err != nil {
		return f, err
	}
	l := newLoad(usedPayload)
	if _, _, err := l.batches(ctx, s.cluster.Nodes()[0], usedTasks); err != nil {
		return f, err
	}
	f.used, err = s.footprint(ctx, cfg.idle)
	fmt.Printf("%-12s fresh %v; used %v\n", fmt.Sprintf("%d shards", shards), f.fresh, f.used)
	return f, err
}

// footprint watches the nodes for a time and returns the mean of their lowest footprints. The lowest footprint excludes
// most garbage.
func (s *stand) footprint(ctx context.Context, within time.Duration) (footprint, error) {
	nodes := s.cluster.Nodes()
	least := make([]footprint, len(nodes))
	for began := time.Now(); ; <-time.After(time.Second) {
		for i, n := range nodes {
			usage, err := procstat.OfTrees(n.PID)
			if err != nil {
				return footprint{}, err
			}
			held, err := n.Metric(ctx, "belfry_memory_held_bytes")
			if err != nil {
				return footprint{}, err
			}
			now := footprint{float64(usage[0].Memory), held}
			if least[i].held == 0 {
				least[i] = now
			}
			least[i] = footprint{min(least[i].resident, now.resident), min(least[i].held, now.held)}
		}
		if time.Since(began) >= within {
			break
		}
	}
	var mean footprint
	for _, f := range least {
		mean.resident += f.resident / float64(len(nodes))
		mean.held += f.held / float64(len(nodes))
	}
	return mean, nil
}
