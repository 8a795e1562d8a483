package raftgroup

import (
	"sync/atomic"
	"time"

	"github.com/belfryhq/belfry/raftgroup/internal/awake"
)

// standstill measures the running time without an applied entry while a call waits for an entry. The wait alone proves
// little: after a restart an entry waits until a long log has been applied again, which may take minutes on a busy
// machine.
type standstill struct {
	steps *atomic.Uint64 // the applier's steps
	limit time.Duration  // 0: none
	timer *awake.Timer
	rings chan struct{} // has a token once the limit may be reached
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

// isReached reports whether the limit is reached, after the timer has rung. It sets the timer again if an entry was
// applied meanwhile.
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
