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

// codecID is written into each segment. raft-wal refuses segments of another codec.
const codecID = 0x62656c66_00000001

// trailerLen is the size in bytes of the trailer behind raft-wal's own encoding: the durable index and the checksum.
const trailerLen = 8 + 4

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// codec encodes an entry as raft-wal does and adds two fields: the last index that was durable before this write began,
// and a CRC-32C over the whole. Both are little-endian, as all of a segment.
type codec struct {
	wal.BinaryCodec
	durable uint64 // for the append under way; Encode runs only during one
	room    []byte // the entries of the append, one behind the other; reused by the next append
}

func (c *codec) ID() uint64 { return codecID }

const (
	keptRoom    = 256 << 10
	sizesAtMost = 96 // bytes of an encoded entry apart from its data and extensions, at most
)

// begin prepares for an append of entries. Their encodings are valid until the append is over. If they exceed keptRoom
// together, each gets memory of its own.
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

// Encode writes to raft-wal's buffer, so a short write is impossible. raft-wal makes a new buffer for each entry;
// Encode gives an empty one the memory of begin.
func (c *codec) Encode(entry *raft.Log, w io.Writer) error {
	if empty, ok := w.(*bytes.Buffer); ok && empty.Cap() == 0 {
		if at, size := len(c.room), encodedAtMost(entry); cap(c.room)-at >= size {
			c.room = c.room[:at+size]
			*empty = *bytes.NewBuffer(c.room[at : at : at+size])
		}
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

// Decode checks a record before it decodes it, because BinaryCodec panics on some malformed input.
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

// durableBefore returns the durable index of an intact record.
func durableBefore(record []byte) uint64 {
	return binary.LittleEndian.Uint64(record[len(record)-trailerLen:])
}

// recordIndex reads the entry's index, which comes first. It returns false if there is none.
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
