package logstore

import (
	"bytes"
	"testing"

	"github.com/hashicorp/raft"

	"github.com/belfryhq/belfry/internal/assert"
)

// TestEncodingUsesItsMemoryAgain checks that the entries of an append are encoded one behind the other, into the memory
// of the append before. Larger appends are encoded, too.
func TestEncodingUsesItsMemoryAgain(t *testing.T) {
	c := &codec{}
	first := encodeAll(t, c, entries(1, 3, 7))
	again := encodeAll(t, c, entries(1, 3, 8))
	assert.Equal(t, &first[0][0], &again[0][0], "the second append was encoded into other memory than the first")
	large := []*raft.Log{{Index: 7, Data: make([]byte, keptRoom)}, entry(8, 7)}
	encodeAll(t, c, large)
	if cap(c.room) > keptRoom {
		t.Errorf("%d bytes are kept", cap(c.room))
	}
}

// encodeAll encodes the entries of one append and decodes them in place.
func encodeAll(t *testing.T, c *codec, entries []*raft.Log) [][]byte {
	t.Helper()
	c.begin(entries[0].Index-1, entries)
	encoded := make([][]byte, len(entries))
	for i, e := range entries {
		var b bytes.Buffer
		assert.NoError(t, c.Encode(e, &b))
		encoded[i] = b.Bytes()
	}
	for i, record := range encoded {
		var got raft.Log
		if err := c.Decode(record, &got); err != nil || got.Index != entries[i].Index || !bytes.Equal(got.Data, entries[i].Data) {
			t.Errorf("entry %d is read back as %d with %d bytes: %v", entries[i].Index, got.Index, len(got.Data), err)
		}
	}
	return encoded
}
