package store

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/internal/assert"
)

// The keys of a task decode to the values that they were encoded from, with any cold blob beside them.
func TestRememberedIsReadBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := &coldHead{created: instants().Draw(t, "created"), occurrence: rapid.Uint64().Draw(t, "occurrence")}
		var keys []remembered
		var blob []byte
		for range rapid.IntRange(1, keysRemembered).Draw(t, "keys") {
			k := drawRemembered(t, c)
			keys, blob = append(keys, k), k.appendTo(blob, c)
		}
		got := readKeys(nil, blob, c)
		assert.MustEqual(t, len(got), len(keys), "keys")
		for i := range keys {
			assert.MustEqual(t, got[i], keys[i])
			var message keyMessage
			keys[i].fill(&message.remembered, &message.key)
			if rememberedOf(&message.remembered) != keys[i] {
				t.Fatalf("got %v in a snapshot, want %+v", &message.remembered, keys[i])
			}
		}
	})
}

func drawRemembered(t *rapid.T, c *coldHead) remembered {
	k := remembered{
		hash: rapid.Uint64().Draw(t, "hash"), call: rapid.Uint64().Draw(t, "call"),
		code: fsmpb.Code_CODE_CREATED, state: fsmpb.State_STATE_SCHEDULED,
		revision:   rapid.OneOf(rapid.Just(c.occurrence), rapid.Uint64()).Draw(t, "revision"),
		occurrence: rapid.OneOf(rapid.SampledFrom([]uint64{0, c.occurrence}), rapid.Uint64()).Draw(t, "its occurrence"),
		created:    rapid.OneOf(rapid.Just(c.created), instants()).Draw(t, "created"),
		fireAt:     instants().Draw(t, "due"),
		attempts:   rapid.OneOf(rapid.Just(uint32(0)), rapid.Uint32()).Draw(t, "attempts"),
		next:       rapid.OneOf(rapid.Just(int64(0)), instants()).Draw(t, "next"),
		lastError:  rapid.OneOf(rapid.Just(""), rapid.String()).Draw(t, "error"),
		unchanged:  rapid.Bool().Draw(t, "unchanged"),
	}
	if rapid.Bool().Draw(t, "a change") {
		k.code = fsmpb.Code(rapid.IntRange(0, 20).Draw(t, "code"))
		k.previous = fsmpb.State(rapid.IntRange(0, 7).Draw(t, "previous"))
		k.state = fsmpb.State(rapid.IntRange(0, 7).Draw(t, "state"))
		k.outcome = fsmpb.CancelOutcome(rapid.IntRange(0, 3).Draw(t, "outcome"))
	}
	return k
}

func instants() *rapid.Generator[int64] {
	return rapid.OneOf(rapid.Int64Range(1_700_000_000_000, 1_900_000_000_000), rapid.Int64Range(-1<<50, 1<<50))
}

// The usual key is small: that of a task that was scheduled once and waits for at most three days.
func TestUsualKeyIsSmall(t *testing.T) {
	c := &coldHead{created: 1_700_000_000_000, occurrence: 1 << 30}
	k := remembered{
		hash: 1, call: 2, code: fsmpb.Code_CODE_CREATED, state: fsmpb.State_STATE_SCHEDULED,
		revision: c.occurrence, created: c.created, fireAt: c.created + 72*3600*1000,
	}
	if n := len(k.appendTo(nil, c)); n > 22 {
		t.Errorf("%d bytes", n)
	}
}
