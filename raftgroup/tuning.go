package raftgroup

import (
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// beats is into how many parts Raft divides the heartbeat timeout: a leader waits one to two of them between two
// heartbeats to a follower.
const beats = 10

// tuning holds the timeouts that Raft runs with at the moment.
//
// Raft has one heartbeat timeout for two things: how long a follower waits before it becomes a candidate, and, by a
// tenth, how often a leader sends. For a failover within a second the one must be short, and the other then comes
// twenty times a second for each follower of each group, which is most of what an idle cluster costs. So a leader runs
// with a longer one than its followers do.
type tuning struct {
	timing Timing

	mu      sync.Mutex
	early   bool // a node that is not preferred leaves the first election after a start to the preferred one
	leading bool
}

func newTuning(cfg Config) *tuning {
	early := cfg.Preferred != "" && cfg.Preferred != cfg.NodeID && cfg.Timing.HeadStart > 0
	return &tuning{timing: cfg.Timing, early: early}
}

// timeouts returns Raft's for the moment.
func (t *tuning) timeouts() (heartbeat, election time.Duration) {
	heartbeat, election = t.timing.Heartbeat, t.timing.Election
	if t.early {
		heartbeat, election = heartbeat+t.timing.HeadStart, election+t.timing.HeadStart
	}
	if t.leading {
		heartbeat = max(t.timing.Beat*beats, t.timing.Lease)
	}
	return heartbeat, max(election, heartbeat)
}

// retune changes the facts that the timeouts depend on. A Raft that follows looks at once whether it has heard from a
// leader.
func (g *Group) retune(change func(*tuning)) {
	g.reload("raft keeps its timeouts", func(c *raft.ReloadableConfig) {
		change(g.tuning)
		c.HeartbeatTimeout, c.ElectionTimeout = g.tuning.timeouts()
	})
}

// reload changes Raft's configuration, one change at a time. Where that fails, the log says what stays as it is.
func (g *Group) reload(stays string, change func(*raft.ReloadableConfig)) {
	g.tuning.mu.Lock()
	defer g.tuning.mu.Unlock()
	c := g.raft.ReloadableConfig()
	change(&c)
	if err := g.raft.ReloadConfig(c); err != nil {
		g.cfg.Logger.Error(stays, "err", err)
	}
}

func (g *Group) endHeadStart() {
	if g.tuning.early && sleep(g.ctx, g.cfg.Timing.HeadStart) {
		g.retune(func(t *tuning) { t.early = false })
	}
}

// lead runs one leadership, with a leader's timeouts.
func (g *Group) lead(run func()) {
	g.retune(func(t *tuning) { t.leading = true })
	defer g.retune(func(t *tuning) { t.leading = false })
	run()
}
