package shard

import (
	"time"

	"github.com/belfryhq/belfry/raftgroup/awake"
)

// standstill measures how long the machine has applied nothing while an entry is waited for, in time in which the
// process ran. That an entry takes long says little: after a restart it waits until a long log has been applied again,
// which on a busy machine may take minutes.
type standstill struct {
	applier *applier
	limit   time.Duration
	timer   *awake.Timer
	rings   chan struct{} // holds a token once the limit may be reached
	applied uint64        // index of the last applied entry when the timer was set
}

func newStandstill(a *applier, limit time.Duration) *standstill {
	s := &standstill{applier: a, limit: limit, rings: make(chan struct{}, 1)}
	s.set()
	return s
}

func (s *standstill) set() {
	s.applied = s.applier.index.Load()
	s.timer = awake.AfterFunc(s.limit, func() { s.rings <- struct{}{} })
}

// isReached is asked when the timer has rung, and sets it anew if entries were applied meanwhile.
func (s *standstill) isReached() bool {
	if s.applier.index.Load() == s.applied {
		return true
	}
	s.set()
	return false
}

func (s *standstill) stop() { s.timer.Stop() }
