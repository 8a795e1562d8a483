package shard

import (
	"context"
	"fmt"
	"os"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/internal/assert"
	"github.com/belfryhq/belfry/internal/gated"
	"github.com/belfryhq/belfry/raftgroup/heartbeat"
)

// TestLeadershipIsGivenAwayUnderLoad checks that a stopping leader gives its leadership away, however many entries it
// appended since the others' last heartbeats. The others have all or nearly all of them. Otherwise calls would wait for
// an election.
func TestLeadershipIsGivenAwayUnderLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newReplicas(t, 3, func(cfg *Config) { cfg.Timing = LAN() }).startAll()
		n := c.leader()
		for range 20 { // from any moment between two heartbeats
			<-time.After(time.Second + 7*time.Millisecond)
			for i := range 2 * closeEnough {
				n.must(t, schedule(fmt.Sprint("task-", i), time.Now().Add(time.Hour)))
			}
			if to := n.current().bestPeer(n.group.Term()); to == "" {
				t.Fatal("no voter is well enough to lead")
			}
		}
		left, began := n.cfg.NodeID, time.Now()
		assert.NoError(t, n.Close(t.Context()))
		c.nodes[left].Shard = nil
		c.leader(c.others(left)...)
		if took := time.Since(began); took >= LAN().Heartbeat {
			t.Errorf("the next leadership began after %v", took)
		}
	})
}

// TestStopsRepeatNothing stops one leader after the other while its leadership is on its way to the node that stopped
// before. Attempts of half a second are always running. None is repeated, and none begins much later than it is due.
// With the flaw refused-transfer, some are repeated.
func TestStopsRepeatNothing(t *testing.T) {
	seeded := os.Getenv("BELFRY_FLAW") == "refused-transfer" // only a build with the tag chaos obeys it
	stops := 6
	if gated.Has(gated.Long) {
		stops = 50
	}
	synctest.Test(t, func(t *testing.T) {
		c := newReplicas(t, 3, func(cfg *Config) { cfg.Timing = LAN() })
		c.sink.respond = func(context.Context, task.Attempt) task.Outcome {
			<-time.After(500 * time.Millisecond)
			return task.Outcome{Delivered: true}
		}
		c.startAll()
		n := c.leader()
		const pace, perStop = 25 * time.Millisecond, 200
		begin, due := time.Now(), map[string]time.Time{}
		for i := range stops {
			var cmds []*fsmpb.Command
			for len(cmds) < perStop {
				id, at := fmt.Sprint(len(due)), begin.Add(time.Second+time.Duration(len(due))*pace).Truncate(time.Millisecond)
				due[id], cmds = at, append(cmds, schedule(id, at))
			}
			n.Do(t.Context(), cmds)
			<-time.After(time.Until(begin.Add(time.Duration(i+1)*perStop*pace + time.Duration(i%4)*pace/4)))
			left := n.cfg.NodeID
			assert.NoError(t, n.Close(t.Context()))
			c.nodes[left].Shard = nil
			n = c.leader(c.others(left)...)
			c.start(left)
			for _, id := range c.ids {
				c.nodes[id].Prefer(left)
			}
		}
		<-time.After(20 * time.Second)
		first := map[string]time.Time{}
		for _, a := range c.sink.all() {
			if _, repeated := first[a.id]; !repeated {
				first[a.id] = a.at
			}
		}
		repeats := len(c.sink.all()) - len(first)
		if len(first) != len(due) || repeats > 0 != seeded {
			t.Errorf("%d tasks of %d arrived, and %d attempts were repeats", len(first), len(due), repeats)
		}
		for id, at := range first {
			if seeded {
				break // an election follows each stop
			}
			if late := at.Sub(due[id]); late > time.Second {
				t.Errorf("task %s came %v late", id, late)
			}
		}
	})
}

// TestTransferOutOfTime checks that an urgent transfer whose time ends before the running attempts is given up. No
// attempt is repeated, and further ones begin.
func TestTransferOutOfTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newReplicas(t, 3, func(cfg *Config) { cfg.Timing = LAN() })
		c.sink.respond = func(context.Context, task.Attempt) task.Outcome {
			<-time.After(2 * time.Second)
			return task.Outcome{Delivered: true}
		}
		c.startAll()
		n := c.leader()
		n.must(t, schedule("runs", time.Now()))
		c.eventually("an attempt runs", func() bool { return n.attempts.count() == 1 })
		ctx, cancel := context.WithTimeout(t.Context(), LAN().Patience/2)
		defer cancel()
		assert.ErrorIs(t, n.Transfer(ctx, c.others(n.cfg.NodeID)[0]), errAttemptsRunning, "the transfer ended with")
		n.must(t, schedule("after", time.Now()))
		<-time.After(10 * time.Second)
		if got := len(c.sink.all()); got != 2 || c.leader() != n {
			t.Errorf("%d attempts of 2 tasks, led by %s", got, c.leader().cfg.NodeID)
		}
	})
}

// TestReturnedFollowerIsNeededAtOnce checks that a returning follower soon has every entry, however long it was away.
// If another replica fails next, nothing can commit without this one.
func TestReturnedFollowerIsNeededAtOnce(t *testing.T) {
	for _, away := range []time.Duration{5 * time.Second, 30 * time.Second, 5 * time.Minute} {
		t.Run(away.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newReplicas(t, 3, func(cfg *Config) { cfg.Timing = LAN() }).startAll()
				leader := c.leader()
				others := c.others(leader.cfg.NodeID)
				c.kill(others[0])
				for i := range 1000 {
					leader.must(t, schedule(fmt.Sprint(i), time.Now().Add(24*time.Hour)))
					time.Sleep(away / 1000)
				}
				c.start(others[0])
				time.Sleep(time.Second)
				c.kill(others[1])
				began := time.Now()
				leader.must(t, schedule("b", time.Now().Add(24*time.Hour)))
				if took := time.Since(began); took > time.Second {
					t.Errorf("the next write took %v", took)
				}
				c.start(others[1])
				c.agree()
			})
		})
	}
}

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

// TestIdleTraffic checks that an idle shard sends as much as `belfry plan` estimates: a heartbeat to each follower at
// each beat, and an empty append every 1.5 commit timeouts.
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
				near("heartbeats", beats.Load()-began, timing.Beat, 1)
				near("empty appends", appends.Load()-beganAppends, timing.Commit, 1.5)
			})
		})
	}
}
