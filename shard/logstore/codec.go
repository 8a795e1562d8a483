package logstore

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"

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
	durable uint64 // set before each append; Encode runs only within one
}

func (c *codec) ID() uint64 { return codecID }

// Encode writes to raft-wal's buffer, so that a short write cannot be.
func (c *codec) Encode(entry *raft.Log, w io.Writer) error {
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
