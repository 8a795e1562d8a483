package placement

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/belfryhq/belfry/internal/assert"
)

func TestSplitCoversEverySlotOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		slots := rapid.IntRange(1, 4096).Draw(t, "slots")
		shards := rapid.IntRange(1, slots).Draw(t, "shards")
		ranges, err := Split(slots, shards)
		assert.NoError(t, err)
		next := uint32(0)
		for _, r := range ranges {
			size := int(r.End) - int(r.First)
			if r.First != next || size < slots/shards || size > slots/shards+1 {
				t.Fatalf("%v after %d", r, next)
			}
			next = r.End
		}
		if int(next) != slots {
			t.Fatalf("%d of %d slots covered", next, slots)
		}
	})
	_, err := Split(4096, 0)
	assert.Error(t, err, "no shards share the slots")
	_, err = Split(3, 4)
	assert.Error(t, err, "four shards share three slots")
}
