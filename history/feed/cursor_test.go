package feed

import (
	"encoding/base64"
	"testing"

	"pgregory.net/rapid"

	"github.com/belfryhq/belfry/history/historypb"
)

// TestCursorText checks that a cursor survives its text.
func TestCursorText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var c Cursor
		for range rapid.IntRange(0, 20).Draw(t, "shards") {
			at := historypb.Position{Index: rapid.Uint64().Draw(t, "index"), Number: rapid.Uint32().Draw(t, "number")}
			c = c.With(rapid.Uint32().Draw(t, "shard"), at)
		}
		again, err := Parse(c.String())
		if err != nil || again.String() != c.String() {
			t.Fatalf("%q became %q, %v", c, again, err)
		}
		for shard, at := range c.positions {
			if again.At(shard) != at {
				t.Fatalf("shard %d: %v became %v", shard, at, again.At(shard))
			}
		}
	})
}

func TestWrongCursors(t *testing.T) {
	for _, b := range [][]byte{
		{2, 1, 1, 1}, {1, 1}, {1, 1, 1}, {1, 1, 1, 1, 1, 2, 2}, {1, 0x80}, {1, 0xff, 0xff, 0xff, 0xff, 0x7f, 1, 1},
	} {
		if c, err := Parse(base64.RawURLEncoding.EncodeToString(b)); err == nil {
			t.Errorf("%v became %q", b, c)
		}
	}
	for _, text := range []string{"x", "====", "a b"} {
		if c, err := Parse(text); err == nil {
			t.Errorf("%q became %q", text, c)
		}
	}
}
