package replicas

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/cluster/control"
)

// leave closes the replicas that a state no longer places here, and deletes their files. It reports whether nothing is
// left to do.
func (s *Set) leave(ctx context.Context, state *clusterpb.ControlState) bool {
	done := true
	for _, id := range s.strays(state) {
		if err := s.leaveOne(ctx, id); err != nil {
			done = false
			s.cfg.Logger.Warn("a replica that has moved away is not deleted yet", "shard", id, "err", err)
		}
	}
	return done
}

// strays returns the shards with a replica or files here that a state places elsewhere. It also returns those that the
// state has placed here anew after an earlier replica was removed. Only the present state is evidence that a shard is
// elsewhere: a log that is read again shows old placements.
func (s *Set) strays(state *clusterpb.ControlState) []uint32 {
	current := s.cfg.Control.IsCurrent(state)
	s.mu.RLock()
	defer s.mu.RUnlock()
	var strays []uint32
	for _, id := range s.held() {
		placed := control.Shard(state, id)
		here := placed != nil && slices.Contains(placed.Replicas, s.cfg.Self)
		opened := s.shards[id] != nil || s.failed[id] != nil
		if here && opened && placed.Joined[s.cfg.Self] > s.joined[id] || !here && current {
			strays = append(strays, id)
		}
	}
	return strays
}

// held returns the shards that run, have failed to open, or have files here. The caller holds the lock.
func (s *Set) held() []uint32 {
	held := s.cfg.Files.Held()
	for id := range s.joined {
		held = append(held, id)
	}
	slices.Sort(held)
	return slices.Compact(held)
}

func (s *Set) leaveOne(ctx context.Context, id uint32) error {
	s.mu.Lock()
	running := s.shards[id]
	delete(s.shards, id)
	delete(s.joined, id)
	delete(s.failed, id)
	s.mu.Unlock()
	var err error
	if running != nil {
		err = running.Close(ctx)
	}
	if left := s.cfg.Files.Leave(id); left != nil {
		return errors.Join(err, left)
	}
	if err != nil {
		return fmt.Errorf("closed with an error, and deleted: %w", err)
	}
	s.cfg.Logger.Info("a replica has moved away; its files are deleted", "shard", id)
	return nil
}
