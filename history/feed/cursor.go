package feed

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"maps"
	"slices"

	"github.com/belfryhq/belfry/history/historypb"
)

// Cursor is the place of a reader: its position in each shard. A shard without a position is read from its beginning.
// The zero Cursor is the beginning of all shards.
type Cursor struct {
	positions map[uint32]historypb.Position // never changed
}

// cursorVersion is the first byte of a cursor's text.
const cursorVersion = 1

// maxShards is the largest number of shards in a cursor.
const maxShards = 4096

var errCursor = errors.New("is not one that the service has given out")

// IsZero reports whether the cursor is the beginning of all shards.
func (c Cursor) IsZero() bool { return len(c.positions) == 0 }

// At returns the position in a shard, zero for its beginning.
func (c Cursor) At(shard uint32) historypb.Position { return c.positions[shard] }

// With returns the cursor with another position in one shard.
func (c Cursor) With(shard uint32, at historypb.Position) Cursor {
	positions := maps.Clone(c.positions)
	if positions == nil {
		positions = map[uint32]historypb.Position{}
	}
	positions[shard] = at
	return Cursor{positions}
}

// String returns the text of the cursor, which Parse reads; the beginning has none.
func (c Cursor) String() string {
	if c.IsZero() {
		return ""
	}
	b := []byte{cursorVersion}
	for _, shard := range slices.Sorted(maps.Keys(c.positions)) {
		at := c.positions[shard]
		b = binary.AppendUvarint(b, uint64(shard))
		b = binary.AppendUvarint(b, at.Index)
		b = binary.AppendUvarint(b, uint64(at.Number))
	}
	return base64.RawURLEncoding.EncodeToString(b)
}

// Parse reads the text of a cursor. Its errors complete a sentence about the text.
func Parse(text string) (Cursor, error) {
	if text == "" {
		return Cursor{}, nil
	}
	const most = maxShards * 3 * binary.MaxVarintLen64
	if base64.RawURLEncoding.DecodedLen(len(text)) > most {
		return Cursor{}, errCursor
	}
	b, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || len(b) == 0 || b[0] != cursorVersion {
		return Cursor{}, errCursor
	}
	c := Cursor{map[uint32]historypb.Position{}}
	for b = b[1:]; len(b) > 0; {
		var numbers [3]uint64
		for i := range numbers {
			n, size := binary.Uvarint(b)
			if size <= 0 {
				return Cursor{}, errCursor
			}
			numbers[i], b = n, b[size:]
		}
		shard, number := uint32(numbers[0]), uint32(numbers[2])
		_, twice := c.positions[shard]
		if twice || uint64(shard) != numbers[0] || uint64(number) != numbers[2] || len(c.positions) == maxShards {
			return Cursor{}, errCursor
		}
		c.positions[shard] = historypb.Position{Index: numbers[1], Number: number}
	}
	return c, nil
}
