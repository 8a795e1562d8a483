package shard

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// TestLeadershipIsGivenAwayUnderLoad checks that a stopping leader gives its leadership away, however many entries it
// appended since the others' last heartbeats. The others have all or nearly all of them. Otherwise calls would wait for
// an election.
func TestLeadershipIsGivenAwayUnderLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newReplicas(t, 3, func(cfg *Config) { cfg.Timing = LAN() }).startAll()
		defer c.close()
		n := c.leader()
		for range 20 { // from any moment between two heartbeats
			<-time.After(time.Second + 7*time.Millisecond)
			for i := range 2 * closeEnough {
				n.must(t, schedule(fmt.Sprint("task-", i), time.Now().Add(time.Hour)))
			}
			if to := n.bestPeer(n.group.Term()); to == "" {
				t.Fatal("no voter is well enough to lead")
			}
		}
		left, began := n.cfg.NodeID, time.Now()
		if err := n.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		c.nodes[left].Shard = nil
		c.leader(c.others(left)...)
		if took := time.Since(began); took >= LAN().Heartbeat {
			t.Errorf("the next leadership began after %v", took)
		}
	})
}
