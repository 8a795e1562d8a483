package shard

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

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
