package shard

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"github.com/belfryhq/belfry/internal/assert"
)

// TestLogBehindSnapshotIsBounded checks that the log keeps fewer entries after a snapshot if they are large.
func TestLogBehindSnapshotIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const bound = 64 << 10
		c := newReplicas(t, 3, func(cfg *Config) { cfg.SnapshotLog, cfg.SnapshotTailBytes = 1<<40, bound }).startAll()
		n, due := c.leader(), time.Now().Add(time.Hour)
		for i := range 100 {
			n.must(t, schedule(fmt.Sprintf("small-%d", i), due))
		}
		n.mustSnapshot(t)
		if first, _ := n.stores.FirstIndex(); first != 1 {
			t.Fatalf("the log begins at %d after entries that all fit", first)
		}
		for i := range 100 {
			large := schedule(fmt.Sprintf("large-%d", i), due)
			large.GetSchedule().Spec.Payload = make([]byte, 10<<10)
			n.must(t, large)
		}
		n.mustSnapshot(t)
		first, err := n.stores.FirstIndex()
		assert.NoError(t, err)
		kept, last := 0, n.group.Stats().Last
		for i := first; i <= last; i++ {
			var e raft.Log
			assert.NoError(t, n.stores.GetLog(i, &e))
			kept += len(e.Data)
		}
		if kept > bound || kept < bound/2 {
			t.Errorf("%d bytes in %d entries are kept, the bound is %d", kept, last-first+1, bound)
		}
	})
}

func (n *node) mustSnapshot(t *testing.T) {
	t.Helper()
	assert.NoError(t, n.snapshots.take(t.Context()))
}
