package raftgroup

import (
	"sync/atomic"
	"time"

	"github.com/belfryhq/belfry/raftgroup/awake"
)

// standstill measures how long the machine has applied nothing while an entry is waited for, in time in which the
// process ran. That an entry takes long says little: after a restart it waits until a long log has been applied again,
// which on a busy machine may take minutes.
type standstill struct {
	steps *atomic.Uint64 // of the applier
	limit time.Duration  // 0: none
	timer *awake.Timer
	rings chan struct{} // holds a token once the limit may be reached
	seen  uint64        // steps when the timer was set
}

func newStandstill(steps *atomic.Uint64, limit time.Duration) *standstill {
	s := &standstill{steps: steps, limit: limit}
	if limit > 0 {
		s.rings = make(chan struct{}, 1)
		s.set()
	}
	return s
}

func (s *standstill) set() {
	s.seen = s.steps.Load()
	s.timer = awake.AfterFunc(s.limit, func() { s.rings <- struct{}{} })
}

// isReached is called when the timer has rung. It sets the timer anew if anything was applied meanwhile.
func (s *standstill) isReached() bool {
	if s.steps.Load() == s.seen {
		return true
	}
	s.set()
	return false
}

func (s *standstill) stop() {
	if s.timer != nil {
		s.timer.Stop()
	}
}
