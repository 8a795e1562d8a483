package shard

import "time"

// standstill measures how long the machine has applied nothing while an entry is waited for. That an entry takes long
// says little: after a restart it waits until a long log has been applied again, which on a busy machine may take
// minutes.
type standstill struct {
	applier *applier
	limit   time.Duration
	timer   *time.Timer // rings when the limit may be reached
	applied uint64      // index of the last applied entry when the timer was set
}

func newStandstill(a *applier, limit time.Duration) *standstill {
	return &standstill{applier: a, limit: limit, timer: time.NewTimer(limit), applied: a.index.Load()}
}

// isReached is asked when the timer has rung, and sets it anew if entries were applied meanwhile.
func (s *standstill) isReached() bool {
	now := s.applier.index.Load()
	if now == s.applied {
		return true
	}
	s.applied = now
	s.timer.Reset(s.limit)
	return false
}
