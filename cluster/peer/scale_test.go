package peer

import (
	"testing"
	"time"

	"github.com/hashicorp/raft"
)

// TestSlowSnapshotsAreNoFailures checks that a snapshot of any size may arrive at the least rate, as raft computes its
// time: a timeout for each scale of its bytes, and one at least.
func TestSlowSnapshotsAreNoFailures(t *testing.T) {
	for _, least := range []int64{0, 8 << 10, 1 << 20, 1 << 40} {
		cfg := Config{LeastRate: least}.withDefaults()
		scale := int64(cfg.snapshotScale())
		if scale > raft.DefaultTimeoutScale {
			t.Errorf("%d bytes a second: less time than raft gives by itself", least)
		}
		for _, size := range []int64{0, scale - 1, scale, 100 << 20, 1 << 40} {
			given := cfg.DialTimeout * time.Duration(max(size/scale, 1))
			if needs := float64(size) / float64(max(least, 1)); least > 0 && 2*given.Seconds() < min(needs, 1e9) {
				t.Errorf("%d bytes at %d a second have %v", size, least, given)
			}
		}
	}
}
