package history

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/belfryhq/belfry/history/historypb"
)

// keep is the keeper: it applies the limits every minute, and after a segment was sealed.
func (s *Store) keep() {
	tick := time.NewTicker(keepPeriod)
	defer tick.Stop()
	for {
		select {
		case <-s.stop:
			return
		case <-tick.C:
		case <-s.sealed:
		}
		s.limit()
	}
}

// limit applies all limits. A failure is counted and logged, and the next call tries again.
func (s *Store) limit() {
	s.keeping.Lock()
	defer s.keeping.Unlock()
	shards := s.open()
	slices.SortFunc(shards, func(a, b *Shard) int { return cmp.Compare(a.id, b.id) })
	for _, step := range []func([]*Shard) error{s.limitAge, s.limitBytes, saveFloors, s.limitTotal, s.rewriteSparse} {
		if err := step(shards); err != nil {
			s.metrics.errors.Inc()
			s.cfg.Logger.Error("the limits of history cannot be applied", "err", err)
			return
		}
	}
}

func saveFloors(shards []*Shard) error {
	for _, sh := range shards {
		if err := sh.saveFloors(); err != nil {
			return err
		}
	}
	return nil
}

// limitAge removes the segments that are too old.
func (s *Store) limitAge(shards []*Shard) error {
	if s.cfg.Age == 0 {
		return nil
	}
	oldest := s.cfg.Clock().Add(-s.cfg.Age).UnixMilli()
	for _, sh := range shards {
		if err := sh.expire(oldest); err != nil {
			return err
		}
	}
	return nil
}

// limitTotal removes the oldest segments of the node until the rest fits.
func (s *Store) limitTotal(shards []*Shard) error {
	for s.cfg.Total > 0 && s.sum((*Shard).size) > s.cfg.Total {
		sh := slices.MinFunc(shards, func(a, b *Shard) int { return compareAge(a.oldest(), b.oldest()) })
		p := sh.oldest()
		if p == nil {
			return nil
		}
		if err := sh.removeOldest(p); err != nil {
			return err
		}
	}
	return nil
}

// compareAge orders sealed segments by their last events. Nil comes last.
func compareAge(p, q *part) int {
	if p == nil || q == nil {
		return cmp.Compare(absent(p), absent(q))
	}
	return cmp.Compare(p.last.AtMs, q.last.AtMs)
}

func absent(p *part) int {
	if p == nil {
		return 1
	}
	return 0
}

// limitBytes removes the oldest events of each namespace that has too many.
func (s *Store) limitBytes(shards []*Shard) error {
	if s.cfg.Bytes == 0 {
		return nil
	}
	usage := map[string]int64{}
	for _, sh := range shards {
		sh.addUsage(usage)
	}
	for _, namespace := range slices.Sorted(maps.Keys(usage)) {
		if err := s.limitNamespace(shards, namespace, usage[namespace]-s.cfg.Bytes); err != nil {
			return err
		}
	}
	return nil
}

// share is the events of a namespace in one segment.
type share struct {
	shard *Shard
	part  *part
	usage *historypb.Usage
}

// limitNamespace removes the namespace's oldest shares until the excess is gone, or no sealed segment has any.
func (s *Store) limitNamespace(shards []*Shard, namespace string, excess int64) error {
	if excess <= 0 {
		return nil
	}
	oldest := make([]*share, 0, len(shards))
	for _, sh := range shards {
		found, err := sh.oldestShare(namespace)
		if err != nil {
			return err
		}
		if found != nil {
			oldest = append(oldest, found)
		}
	}
	for excess > 0 && len(oldest) > 0 {
		i := minIndex(oldest)
		excess -= oldest[i].usage.Bytes
		next, err := oldest[i].shard.removeShare(oldest[i])
		if err != nil {
			return err
		}
		if oldest[i] = next; next == nil {
			oldest = slices.Delete(oldest, i, i+1)
		}
	}
	return nil
}

func minIndex(shares []*share) int {
	least := 0
	for i, s := range shares {
		if s.usage.Last.AtMs < shares[least].usage.Last.AtMs {
			least = i
		}
	}
	return least
}
