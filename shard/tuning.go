package shard

import (
	"context"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// raftBeats is into how many parts Raft divides the heartbeat timeout: a leader waits one to two of them between two
// heartbeats to a follower.
const raftBeats = 10

// tuning is which timeouts Raft runs with at the moment.
//
// Raft has one heartbeat timeout for two things: how long a follower waits before it becomes a candidate, and, by a
// tenth, how often a leader sends. For a failover within a second the one must be short, and the other then comes
// twenty times a second for each follower of each shard, which is most of what an idle cluster costs. So a leader runs
// with a longer one than its followers do.
type tuning struct {
	timing Timing

	mu      sync.Mutex
	early   bool // who is not preferred leaves the preferred node the first election after all were started together
	leading bool
}

func newTuning(cfg Config) *tuning {
	early := cfg.Preferred != "" && cfg.Preferred != cfg.NodeID && cfg.Timing.HeadStart > 0
	return &tuning{timing: cfg.Timing, early: early}
}

// timeouts are Raft's for the moment.
func (t *tuning) timeouts() (heartbeat, election time.Duration) {
	heartbeat, election = t.timing.Heartbeat, t.timing.Election
	if t.early {
		heartbeat, election = heartbeat+t.timing.HeadStart, election+t.timing.HeadStart
	}
	if t.leading {
		heartbeat = max(t.timing.Beat*raftBeats, t.timing.Lease)
	}
	return heartbeat, max(election, heartbeat)
}

// retune changes what the timeouts depend on. A Raft that follows looks at once whether it has heard of a leader.
func (s *Shard) retune(change func(*tuning)) {
	s.reload("raft keeps its timeouts", func(c *raft.ReloadableConfig) {
		change(s.tuning)
		c.HeartbeatTimeout, c.ElectionTimeout = s.tuning.timeouts()
	})
}

// reload changes what Raft runs with, one change at a time. Where it cannot, the log says what stays as it is.
func (s *Shard) reload(stays string, change func(*raft.ReloadableConfig)) {
	s.tuning.mu.Lock()
	defer s.tuning.mu.Unlock()
	c := s.raft.ReloadableConfig()
	change(&c)
	if err := s.raft.ReloadConfig(c); err != nil {
		s.cfg.Logger.Error(stays, "err", err)
	}
}

func (s *Shard) endHeadStart(ctx context.Context) {
	if s.tuning.early && sleep(ctx, s.cfg.Timing.HeadStart) {
		s.retune(func(t *tuning) { t.early = false })
	}
}

// leads tells Raft to send as a leader, or to wait as a follower.
func (s *Shard) leads(leading bool) {
	s.retune(func(t *tuning) { t.leading = leading })
}
