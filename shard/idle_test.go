package shard

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"github.com/belfryhq/belfry/raftgroup/heartbeat"
)

// counted is a transport that counts the requests of a leader to its followers.
type counted struct {
	*raft.InmemTransport
	beats, appends *atomic.Int64
}

func (c counted) AppendEntries(id raft.ServerID, to raft.ServerAddress,
	req *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) error {
	if heartbeat.Is(req) {
		c.beats.Add(1)
	} else {
		c.appends.Add(1)
	}
	return c.InmemTransport.AppendEntries(id, to, req, resp)
}

func (c counted) AppendEntriesPipeline(id raft.ServerID, to raft.ServerAddress) (raft.AppendPipeline, error) {
	inner, err := c.InmemTransport.AppendEntriesPipeline(id, to)
	return countedPipeline{inner, c.appends}, err
}

type countedPipeline struct {
	raft.AppendPipeline
	appends *atomic.Int64
}

func (c countedPipeline) AppendEntries(
	req *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) (raft.AppendFuture, error) {
	c.appends.Add(1)
	return c.AppendPipeline.AppendEntries(req, resp)
}

// TestIdleTraffic checks that an idle shard sends as much as `belfry plan` estimates: a heartbeat to each follower
// every 1.75 beats (Raft waits 1 to 2 beats, and the metronome for the next half beat), and an empty append every 1.5
// commit timeouts.
func TestIdleTraffic(t *testing.T) {
	for name, timing := range map[string]Timing{"lan": LAN(), "fast": Fast(), "wan": WAN()} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var beats, appends atomic.Int64
				c := newReplicas(t, 3, func(cfg *Config) { cfg.Timing = timing })
				c.wire = func(_ string, inner *raft.InmemTransport) raft.Transport {
					return counted{inner, &beats, &appends}
				}
				c.startAll()
				c.leader()
				<-time.After(time.Minute) // time for a leadership to go home
				const minutes = 10
				began, beganAppends := beats.Load(), appends.Load()
				<-time.After(minutes * time.Minute)
				near := func(what string, got int64, every time.Duration, spread float64) {
					want := 2 * (minutes * time.Minute).Seconds() / every.Seconds() / spread
					if ratio := float64(got) / want; ratio < 0.93 || ratio > 1.07 {
						t.Errorf("%d %s in %d minutes, and about %.0f were expected", got, what, minutes, want)
					}
				}
				near("heartbeats", beats.Load()-began, timing.Beat, 1.75)
				near("empty appends", appends.Load()-beganAppends, timing.Commit, 1.5)
			})
		})
	}
}
