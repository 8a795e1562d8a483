package cluster

import (
	"slices"
	"testing"
	"time"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/cluster/doctor"
	"github.com/belfryhq/belfry/internal/assert"
)

// The control group is shown as its leader reports it. Without the leader, the newest report counts.
func TestViewOfTheControlGroup(t *testing.T) {
	report := func(state, leader string, term uint64, voters ...string) *clusterpb.StatusReply {
		return &clusterpb.StatusReply{Replicas: []*clusterpb.ReplicaStatus{
			{State: state, Leader: leader, Term: term, Voters: voters},
		}}
	}
	reports := statuses{
		"a": report("follower", "c", 7, "a", "b"), "b": report("follower", "", 7, "a"), "d": nil,
		"c": report("leader", "c", 7, "c", "b", "a"), "e": report("leader", "e", 6, "e"),
	}
	got := viewControl(reports)
	if got.Leader != "c" || got.Term != 7 || !slices.Equal(got.Voters, []string{"a", "b", "c"}) {
		t.Errorf("%+v", got)
	}
	delete(reports, "c")
	if got = viewControl(reports); got.Leader != "c" || got.Term != 7 {
		t.Errorf("without the leader: %+v", got)
	}
	if got = viewControl(statuses{"d": nil}); got.Leader != "" || got.Term != 0 || len(got.Voters) > 0 {
		t.Errorf("without a report: %+v", got)
	}
}

// A node registers itself, and no other node does: a member of the cluster asks the leader for a change instead.
func TestMayRegister(t *testing.T) {
	for caller, want := range map[string]bool{"New": true, "new": true, "member": false, "stranger": false} {
		assert.Equal(t, mayRegister(caller, &clusterpb.Node{Name: "new"}), want, "%s", caller)
	}
}

// TestQuotaTrip checks that the parts of a quota wait for any node whose answers keep a shard's leader.
func TestQuotaTrip(t *testing.T) {
	for name, want := range map[string]time.Duration{
		"fast": 100 * time.Millisecond, "lan": 175 * time.Millisecond, "wan": 500 * time.Millisecond,
	} {
		timing, err := ParseTiming(name)
		assert.NoError(t, err)
		assert.Equal(t, quotaTrip(timing), want, "%s", name)
	}
}

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
		assert.Equal(t, policyOf(cfg, "this", state).TombstoneBytes, c.each, "of %d bytes each replica", c.all)
	}
}

// TestAPIKeysOfASnapshot checks that a key is unused since its last use, or since it was made, and that an expired one
// is left out.
func TestAPIKeysOfASnapshot(t *testing.T) {
	now := time.UnixMilli(1_000_000_000_000)
	ago := func(d time.Duration) int64 { return now.Add(-d).UnixMilli() }
	state := &clusterpb.ControlState{ApiKeys: []*clusterpb.ApiKey{
		{Id: "new", CreatedMs: ago(time.Minute)},
		{Id: "old", CreatedMs: ago(100 * time.Hour)},
		{Id: "used", CreatedMs: ago(100 * time.Hour), UsedMs: ago(2 * time.Hour), ExpiresMs: ago(-time.Hour)},
		{Id: "expired", CreatedMs: ago(100 * time.Hour), ExpiresMs: ago(0)},
	}}
	want := []doctor.APIKey{{ID: "new", Unused: time.Minute}, {ID: "old", Unused: 100 * time.Hour},
		{ID: "used", Unused: 2 * time.Hour}}
	assert.EqualSlices(t, apiKeys(state, now), want)
}
