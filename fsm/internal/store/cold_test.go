package store

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/wheel"
)

// A cold blob decodes to the values that it was encoded from, as a whole and in its parts.
func TestColdIsReadBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := cold{
			coldHead: coldHead{
				created: rapid.OneOf(
					rapid.Int64Range(0, 1<<48-1), rapid.Int64Range(coldEpoch-2, coldEpoch+2),
					rapid.Int64Range(coldEpoch+coldYears-2, coldEpoch+coldYears+2),
				).Draw(t, "created"),
				occurrence: rapid.Uint64Max(wheel.MaxSeq).Draw(t, "occurrence"),
			},
			queue:   rapid.Uint32().Draw(t, "queue"),
			target:  rapid.Uint32().Draw(t, "target"),
			manner:  rapid.Uint32().Draw(t, "manner"),
			delay:   rapid.OneOf(rapid.Just(int64(NoDelay)), rapid.Int64Range(0, 1<<50)).Draw(t, "delay"),
			extra:   rapid.SliceOf(rapid.Byte()).Draw(t, "extra"),
			asBytes: rapid.Bool().Draw(t, "as bytes"),
			payload: rapid.SliceOf(rapid.Byte()).Draw(t, "payload"),
		}
		if rapid.Bool().Draw(t, "has its first key") {
			c.first = firstKeyOf(&fsmpb.Key{Hash: rapid.Uint64().Draw(t, "hash"), Call: rapid.Uint64().Draw(t, "call")})
		}
		if rapid.Bool().Draw(t, "has its id") {
			c.namespace, c.id = rapid.String().Draw(t, "namespace"), rapid.StringN(1, -1, -1).Draw(t, "id")
		}
		b := c.appendTo(nil)
		if diff := cmp.Diff(c, readCold(b), cmp.AllowUnexported(cold{}, coldHead{}, firstKey{}), cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("want (-), got (+):\n%s", diff)
		}
		if coldQueue(b) != c.queue || coldIs(b, c.namespace, c.id) != (c.id != "") || coldIs(b, c.namespace+"x", c.id) {
			t.Fatalf("queue %d, is its id: %v", coldQueue(b), coldIs(b, c.namespace, c.id))
		}
	})
}
