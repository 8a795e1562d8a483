package raftgroup

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/belfryhq/belfry/raftgroup/internal/awake"
)

// standstill rings once no entry was applied for a limit of running time, while a call waits for an entry. The wait
// alone proves little: after a restart an entry waits until a long log has been applied again, which may take minutes
// on a busy machine.
type standstill struct {
	steps *atomic.Uint64 // the applier's steps
	limit time.Duration  // 0: none
	ring  func()         // called in a goroutine of its own

	mu    sync.Mutex
	timer *awake.Timer // nil: none runs
	seen  uint64       // steps when the timer was set
}

func newStandstill(steps *atomic.Uint64, limit time.Duration, ring func()) *standstill {
	s := &standstill{steps: steps, limit: limit, ring: ring}
	if limit > 0 {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.set()
	}
	return s
}

func (s *standstill) set() {
	s.seen = s.steps.Load()
	s.timer = awake.AfterFunc(s.limit, func() {
		if s.isReached() {
			s.ring()
		}
	})
}

// isReached reports whether the limit is reached, after the timer has rung. It sets the timer again if an entry was
// applied meanwhile.
func (s *standstill) isReached() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.timer == nil || s.steps.Load() == s.seen {
		return s.timer != nil
	}
	s.set()
	return false
}

func (s *standstill) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.timer != nil {
		s.timer.Stop()
		s.timer = nil
	}
}
