package tenants

import (
	"testing"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/fsm/fsmpb"
)

// BenchmarkCall is what one call with a known key costs here: the version of the keys, the use, the namespace, and the
// check at the leader of the shard.
func BenchmarkCall(b *testing.B) {
	n := New(alone(Config{Dir: b.TempDir()}))
	state := withKey("k", 1)
	for _, id := range []string{"a", "b", "c"} {
		state.ApiKeys = append(state.ApiKeys, &clusterpb.ApiKey{Id: id})
	}
	n.roster.Store(newRoster(state, nil))
	schedule := &fsmpb.Command{Namespace: "shop", Id: "t", Op: &fsmpb.Command_Schedule{Schedule: &fsmpb.Schedule{}}}
	b.ReportAllocs()
	for b.Loop() {
		n.KeyUsed("k")
		if n.KeysVersion() == 0 || !n.KeysInForce() || !n.NamespaceActive("shop") || n.Admit(schedule) != nil {
			b.Fatal("refused")
		}
	}
}
