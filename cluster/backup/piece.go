package backup

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
)

// magic begins every backup.
const magic = "belfryb\x01"

// Format is the newest version of the header that this build writes and reads.
const Format = 1

// kind tells pieces apart.
type kind byte

const (
	headerPiece  kind = 1
	sectionPiece kind = 2
	statePiece   kind = 3
	endPiece     kind = 4
	pausePiece   kind = 5
)

const (
	headBytes  = 1 + 4
	sumBytes   = 4
	stateBytes = 256 << 10 // payload of a state piece, at most
	maxPayload = 64 << 20  // of any other piece: the control state has at most thousands of policies
)

func (k kind) limit() uint32 {
	if k == statePiece {
		return stateBytes
	}
	return maxPayload
}

func (k kind) known() bool { return headerPiece <= k && k <= pausePiece }

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// sumOf returns the checksum of a piece by its number, its head and its payload.
func sumOf(number uint64, head, payload []byte) uint32 {
	sum := crc32.Update(0, castagnoli, binary.BigEndian.AppendUint64(nil, number))
	return crc32.Update(crc32.Update(sum, castagnoli, head), castagnoli, payload)
}

// pieces writes pieces to a stream, and counts and hashes its bytes.
type pieces struct {
	w      io.Writer
	hash   hash.Hash
	bytes  uint64
	number uint64 // of the next piece
	buffer []byte
}

func newPieces(w io.Writer) *pieces { return &pieces{w: w, hash: sha256.New()} }

func (p *pieces) write(b []byte) error {
	n, err := p.w.Write(b)
	p.bytes += uint64(n)
	p.hash.Write(b[:n])
	return err
}

// put writes one piece.
func (p *pieces) put(k kind, payload []byte) error {
	if uint64(len(payload)) > uint64(k.limit()) {
		return fmt.Errorf("a piece of a backup has %d bytes: %d is the limit", len(payload), k.limit())
	}
	b := append(p.buffer[:0], byte(k))
	b = binary.BigEndian.AppendUint32(b, uint32(len(payload)))
	b = append(b, payload...)
	b = binary.BigEndian.AppendUint32(b, sumOf(p.number, b[:headBytes], payload))
	p.buffer = b
	p.number++
	return p.write(b)
}
