package raftgroup

import (
	"context"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// spareBeat is a leader's heartbeat timeout in beats. After a heartbeat Raft waits a tenth to a fifth of that timeout
// for the next beat, 1.1 to 2.2 beats, before it sends one by itself.
const spareBeat = 11

// tuning holds Raft's present timeouts.
//
// Raft has one heartbeat timeout for two purposes: the time before a follower becomes a candidate, and, divided by ten,
// the interval of a leader's heartbeats. Failover within a second needs a short timeout. A leader would then send
// twenty heartbeats a second to each follower of each group, most of the cost of an idle cluster. So a leader runs with
// a longer timeout than its followers.
type tuning struct {
	timing Timing

	yields bool // this node is not preferred and leaves the first election after a start to the preferred one

	mu       sync.Mutex
	starting bool // the replica has not stood for the first election after its start
	leading  bool
}

func newTuning(cfg Config) *tuning {
	return &tuning{
		timing: cfg.Timing, yields: cfg.Preferred != "" && cfg.Preferred != cfg.NodeID, starting: true,
	}
}

// headStart returns the time for which this replica leaves the first election to the preferred one.
func (t *tuning) headStart() time.Duration {
	if t.yields {
		return t.timing.HeadStart
	}
	return 0
}

// moment is the difference between the timeouts before and after the first candidacy. Raft looks at its timer when the
// timeout becomes shorter.
const moment = time.Millisecond

// timeouts returns Raft's timeouts for the present state.
func (t *tuning) timeouts() (heartbeat, election time.Duration) {
	heartbeat, election = t.timing.Heartbeat, t.timing.Election
	if t.starting {
		longer := t.headStart() + moment
		heartbeat, election = heartbeat+longer, election+longer
	}
	if t.leading {
		heartbeat = t.timing.Beat * spareBeat
	}
	return heartbeat, max(election, heartbeat)
}

// retune changes the state that the timeouts depend on. A Raft that follows then checks at once whether it has heard
// from a leader.
func (g *Group) retune(change func(*tuning)) {
	g.reload("raft keeps its timeouts", func(c *raft.ReloadableConfig) {
		change(g.tuning)
		c.HeartbeatTimeout, c.ElectionTimeout = g.tuning.timeouts()
	})
}

// reload changes Raft's configuration, one change at a time. On an error it logs stays, the consequence.
func (g *Group) reload(stays string, change func(*raft.ReloadableConfig)) {
	g.tuning.mu.Lock()
	defer g.tuning.mu.Unlock()
	c := g.raft.ReloadableConfig()
	change(&c)
	if err := g.raft.ReloadConfig(c); err != nil {
		g.cfg.Logger.Error(stays, "err", err)
	}
}

// lead runs one leadership. Until the leadership is lost or run returns, Raft has a leader's timeouts.
func (g *Group) lead(ctx context.Context, run func(ctx context.Context)) {
	g.retune(func(t *tuning) { t.leading = true })
	follow := sync.OnceFunc(func() { g.retune(func(t *tuning) { t.leading = false }) })
	defer follow()
	defer context.AfterFunc(ctx, follow)()
	run(ctx)
}
