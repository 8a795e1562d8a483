package cluster

import (
	"slices"
	"testing"
	"time"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/cluster/doctor"
)

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
	if got := apiKeys(state, now); !slices.Equal(got, want) {
		t.Errorf("%+v", got)
	}
}
