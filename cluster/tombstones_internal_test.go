package cluster

import (
	"testing"

	"github.com/belfryhq/belfry/cluster/clusterpb"
)

// In a cluster of 24 shards, this node's eight replicas share its bytes for tombstones. The number of shards that its
// own settings would give a new cluster does not matter.
func TestReplicasShareTheRoomForTombstones(t *testing.T) {
	t.Parallel()
	state := &clusterpb.ControlState{}
	for i := range 24 {
		replicas := []string{"other"}
		if i%3 == 0 {
			replicas = append(replicas, "this")
		}
		state.Shards = append(state.Shards, &clusterpb.Shard{Id: uint32(i) + 1, Replicas: replicas})
	}
	for _, c := range []struct{ all, each int64 }{{8000, 1000}, {0, 0}} {
		cfg := Config{Shards: 12, TombstoneBytes: c.all}
		if got := policyOf(cfg, "this", state).TombstoneBytes; got != c.each {
			t.Errorf("of %d bytes each replica has %d, want %d", c.all, got, c.each)
		}
	}
}
