package shard

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
)

func TestTailWithinBytes(t *testing.T) {
	tl := newTail(4)
	for i, step := range []struct {
		add  int
		want uint64 // within 100 bytes
	}{
		{10, 4}, // what was never written takes nothing
		{40, 4}, {50, 4}, {1, 3}, {60, 2}, {100, 1}, {101, 1}, {0, 1}, {0, 2}, {0, 3}, {0, 4}, {0, 4},
	} {
		tl.add(step.add)
		if got := tl.within(100); got != step.want {
			t.Errorf("step %d: %d entries, want %d", i, got, step.want)
		}
	}
}

// TestLogBehindSnapshotIsBounded: of large entries fewer are kept than of small ones.
func TestLogBehindSnapshotIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const bound = 64 << 10
		c := newReplicas(t, 3, func(cfg *Config) { cfg.SnapshotLog, cfg.SnapshotTailBytes = 1<<40, bound }).startAll()
		defer c.close()
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
		if err != nil {
			t.Fatal(err)
		}
		kept, last := 0, n.raft.LastIndex()
		for i := first; i <= last; i++ {
			var e raft.Log
			if err := n.stores.GetLog(i, &e); err != nil {
				t.Fatal(err)
			}
			kept += len(e.Data)
		}
		if kept > bound || kept < bound/2 {
			t.Errorf("%d bytes in %d entries are kept, the bound is %d", kept, last-first+1, bound)
		}
	})
}

func (n *node) mustSnapshot(t *testing.T) {
	t.Helper()
	if err := n.takeSnapshot(t.Context()); err != nil {
		t.Fatal(err)
	}
}
