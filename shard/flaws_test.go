package shard

import (
	"fmt"
	"os"
	"testing"
	"testing/synctest"
	"time"
)

// TestNothingStartsBeforeItsCommit checks that a leader without followers starts no attempt of an entry that it only
// proposes. With the flaw, it starts the first one. Attempts that an elected successor starts are committed and do not
// count.
func TestNothingStartsBeforeItsCommit(t *testing.T) {
	seeded := os.Getenv("BELFRY_FLAW") == "fire-before-commit" // only a build with the tag chaos obeys it
	synctest.Test(t, func(t *testing.T) {
		c := newReplicas(t, 3, func(cfg *Config) { cfg.Timing = LAN() }).startAll()
		n := c.leader()
		due := time.Now().Add(time.Second)
		for i := range 10 {
			n.must(t, schedule(fmt.Sprint(i), due))
		}
		time.Sleep(time.Until(due.Add(-100 * time.Millisecond)))
		id := n.cfg.NodeID
		c.cut(id)
		time.Sleep(300 * time.Millisecond)
		got := 0
		for _, a := range c.sink.all() {
			if a.node == id {
				got++
			}
		}
		if got > 0 != seeded {
			t.Errorf("%d attempts of the leader that was cut off", got)
		}
	})
}
