package control

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/belfryhq/belfry/cluster/clusterpb"
)

// splitter begins the split of a shard that has outgrown its limit, during one leadership of the control group.
type splitter struct {
	group  *Group
	limits AutoSplit
	calm   time.Duration
	since  map[uint32]time.Time // shards above the limit, and since when

	mu     sync.Mutex
	report *clusterpb.AutoSplit // nil: no shard splits by itself, or no look yet
}

func newSplitter(g *Group) *splitter {
	return &splitter{
		group: g, limits: g.cfg.AutoSplit, calm: g.cfg.Limits.Calm, since: make(map[uint32]time.Time),
	}
}

// run looks for shards above the limit until ctx ends.
func (s *splitter) run(ctx context.Context) {
	if s.limits.Bytes == 0 {
		return
	}
	ticker := time.NewTicker(s.calm / 2)
	defer ticker.Stop()
	for {
		s.look(ctx, time.Now())
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

// look begins at most one split.
func (s *splitter) look(ctx context.Context, now time.Time) {
	g := growth{
		state: s.group.State(), limits: s.limits, census: s.group.cfg.Shards.Census(ctx), up: s.group.cfg.Shards.Up,
		calm: s.calm, now: now,
	}
	outgrown := g.outgrown()
	g.grown = s.remember(outgrown, now)
	shard, waits := g.next()
	if shard > 0 {
		waits = s.split(ctx, g, shard)
	}
	slices.Sort(outgrown)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.report = &clusterpb.AutoSplit{
		Bytes: s.limits.Bytes, Shards: uint32(s.limits.Shards), Outgrown: outgrown, Waits: waits,
	}
}

// remember returns for how long the shards have been above the limit.
func (s *splitter) remember(outgrown []uint32, now time.Time) map[uint32]time.Duration {
	maps.DeleteFunc(s.since, func(id uint32, _ time.Time) bool { return !slices.Contains(outgrown, id) })
	grown := make(map[uint32]time.Duration)
	for _, id := range outgrown {
		if s.since[id].IsZero() {
			s.since[id] = now
		}
		grown[id] = now.Sub(s.since[id])
	}
	return grown
}

// split begins the operation, and returns the reason if it could not.
func (s *splitter) split(ctx context.Context, g growth, shard uint32) (waits string) {
	op := &clusterpb.Operation{Id: NewOperationID(), Kind: splitShard, Shard: shard, Cause: g.cause(shard)}
	limited, cancel := context.WithTimeout(ctx, moveCall)
	defer cancel()
	log := s.group.cfg.Logger.With("shard", shard, "cause", op.Cause)
	begin := &clusterpb.ControlEntry{Op: &clusterpb.ControlEntry_Begin{Begin: &clusterpb.Begin{Operation: op}}}
	if _, err := s.group.change(limited, &clusterpb.ControlChange{Entry: begin}); err != nil {
		log.Info("a shard is not split yet", "err", err)
		return err.Error()
	}
	s.group.splits.Add(1)
	log.Info("a shard splits by itself", "operation", op.Id)
	return ""
}

// fill tells which shards are above the limit, and why they do not split.
func (s *splitter) fill(shape *clusterpb.Shape) {
	s.mu.Lock()
	defer s.mu.Unlock()
	shape.AutoSplit = s.report
}
