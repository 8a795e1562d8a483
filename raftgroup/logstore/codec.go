package logstore

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"slices"

	"github.com/hashicorp/raft"
	wal "github.com/hashicorp/raft-wal"
)

// codecID is written into each segment; raft-wal refuses segments of another codec.
const codecID = 0x62656c66_00000001

// trailerLen is the length in bytes of what follows raft-wal's own encoding: the durable index, and the checksum.
const trailerLen = 8 + 4

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// codec encodes an entry as raft-wal does and adds two things: the last index that was durable before this write began,
// and a CRC-32C over all of it. Little-endian, as everything in a segment.
type codec struct {
	wal.BinaryCodec
	durable uint64 // as of the append under way; Encode runs only within one
	room    []byte // of its entries, one behind the other; the next append has it again
}

func (c *codec) ID() uint64 { return codecID }

const (
	keptRoom    = 256 << 10
	sizesAtMost = 96 // bytes of an encoded entry beside its data and extensions
)

// begin prepares for an append of entries. Their encodings are valid until the append is over. Past keptRoom, each is
// given memory of its own.
func (c *codec) begin(durable uint64, entries []*raft.Log) {
	c.durable, c.room = durable, c.room[:0]
	size := 0
	for _, e := range entries {
		size += encodedAtMost(e)
	}
	if size <= keptRoom {
		c.room = slices.Grow(c.room, size)
	}
}

func encodedAtMost(e *raft.Log) int { return len(e.Data) + len(e.Extensions) + sizesAtMost }

// place is room for an entry; nil: there is none.
func (c *codec) place(e *raft.Log) []byte {
	at, size := len(c.room), encodedAtMost(e)
	if cap(c.room)-at < size {
		return nil
	}
	c.room = c.room[:at+size]
	return c.room[at : at : at+size]
}

// Encode writes to raft-wal's buffer, so that a short write cannot be. It is a new one for each entry, as large as
// that: from here it gets memory that was used before.
func (c *codec) Encode(entry *raft.Log, w io.Writer) error {
	if empty, ok := w.(*bytes.Buffer); ok && empty.Cap() == 0 {
		*empty = *bytes.NewBuffer(c.place(entry))
	}
	sum := checksummer{w: w}
	if err := c.BinaryCodec.Encode(entry, &sum); err != nil {
		return err
	}
	var trailer [trailerLen]byte
	binary.LittleEndian.PutUint64(trailer[:8], c.durable)
	binary.LittleEndian.PutUint32(trailer[8:], crc32.Update(sum.crc, castagnoli, trailer[:8]))
	_, err := w.Write(trailer[:])
	return err
}

// Decode checks before it decodes: BinaryCodec panics on some malformed input.
func (c *codec) Decode(record []byte, entry *raft.Log) error {
	if !intact(record) {
		return fmt.Errorf("%w: a log entry does not match its checksum", ErrDamaged)
	}
	return c.BinaryCodec.Decode(record[:len(record)-trailerLen], entry)
}

func intact(record []byte) bool {
	n := len(record) - 4
	return n > trailerLen-4 && crc32.Checksum(record[:n], castagnoli) == binary.LittleEndian.Uint32(record[n:])
}

// durableBefore reads the durable index of an intact record.
func durableBefore(record []byte) uint64 {
	return binary.LittleEndian.Uint64(record[len(record)-trailerLen:])
}

// recordIndex reads the entry's index, which comes first; false if there is none.
func recordIndex(record []byte) (uint64, bool) {
	index, n := binary.Uvarint(record)
	return index, n > 0
}

type checksummer struct {
	w   io.Writer
	crc uint32
}

func (s *checksummer) Write(b []byte) (int, error) {
	s.crc = crc32.Update(s.crc, castagnoli, b)
	return s.w.Write(b)
}
