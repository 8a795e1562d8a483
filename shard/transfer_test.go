package shard

import (
	"context"
	"fmt"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/internal/assert"
	"github.com/belfryhq/belfry/internal/gated"
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
