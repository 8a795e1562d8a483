package cluster

import (
	"testing"
	"time"
)

// TestQuotaTrip checks that the parts of a quota wait for any node whose answers keep a shard's leader.
func TestQuotaTrip(t *testing.T) {
	for name, want := range map[string]time.Duration{
		"fast": 100 * time.Millisecond, "lan": 175 * time.Millisecond, "wan": 500 * time.Millisecond,
	} {
		timing, err := ParseTiming(name)
		if err != nil {
			t.Fatal(err)
		}
		if got := quotaTrip(timing); got != want {
			t.Errorf("%s: %v in place of %v", name, got, want)
		}
	}
}
