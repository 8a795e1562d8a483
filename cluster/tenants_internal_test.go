package cluster

import (
	"testing"
	"time"

	"github.com/belfryhq/belfry/internal/assert"
)

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
