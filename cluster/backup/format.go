package backup

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"

	"google.golang.org/protobuf/proto"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/fsm/task"
)

// magic begins every backup.
const magic = "belfryb\x01"

// format is the newest version of the header that this build writes and reads.
const format = 1

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

// CheckHeader returns an error if the header does not describe one whole cluster: each slot in one shard, and in the
// shard's section all tasks of its slots. A shard may own no slots: it is the target of a split that is under way.
func CheckHeader(h *clusterpb.BackupHeader) error {
	sections := make(map[uint32]*clusterpb.BackupShard)
	for _, s := range h.Shards {
		if sections[s.Shard] != nil {
			return fmt.Errorf("the backup has shard %d twice", s.Shard)
		}
		sections[s.Shard] = s
	}
	slots := uint32(0)
	for _, r := range h.GetControl().GetSlots() {
		if r.First != slots || r.End <= r.First {
			return fmt.Errorf("the backup's map of slots is broken at slot %d", slots)
		}
		if err := checkSection(r, sections[r.Shard]); err != nil {
			return err
		}
		slots = r.End
	}
	if slots != task.Slots {
		return fmt.Errorf("the backup's map ends at slot %d of %d", slots, task.Slots)
	}
	return nil
}

// checkSection checks that a shard's section has all tasks of a range of slots.
func checkSection(r *clusterpb.SlotRange, section *clusterpb.BackupShard) error {
	if section == nil {
		return fmt.Errorf("the backup lacks shard %d", r.Shard)
	}
	for _, l := range section.Lacks {
		if l.First < r.End && r.First < l.End {
			return fmt.Errorf("shard %d does not have all tasks of slots %d to %d: they have moved", r.Shard, l.First, l.End-1)
		}
	}
	return nil
}

// Writer writes a backup. The caller writes the header, then each section in the header's order, then calls Close.
type Writer struct {
	out    *pieces
	begun  bool
	shards []*clusterpb.BackupShard // without a section yet
	left   uint64                   // bytes that the section still lacks
	sum    string
}

// NewWriter begins a backup on w. It writes only when a method is called.
func NewWriter(w io.Writer) *Writer { return &Writer{out: newPieces(w)} }

// Pause writes a piece without a meaning.
func (w *Writer) Pause() error { return w.put(pausePiece, nil) }

// Header writes the header.
func (w *Writer) Header(h *clusterpb.BackupHeader) error {
	h.Format = format
	data, err := proto.Marshal(h)
	if err != nil {
		return err
	}
	w.shards = h.Shards
	return w.put(headerPiece, data)
}

// Section writes the section of the next shard: the state as its replica wrote it.
func (w *Writer) Section(shard uint32, state io.Reader) error {
	if len(w.shards) == 0 || w.shards[0].Shard != shard || w.left > 0 {
		return fmt.Errorf("the section of shard %d is not the next one", shard)
	}
	data, err := proto.Marshal(w.shards[0])
	if err == nil {
		err = w.put(sectionPiece, data)
	}
	if err != nil {
		return err
	}
	w.left = w.shards[0].Bytes
	if err := w.state(state); err != nil {
		return fmt.Errorf("state of shard %d: %w", shard, err)
	}
	w.shards = w.shards[1:]
	return nil
}

// state writes all bytes of a section, which must be as many as the header says.
func (w *Writer) state(from io.Reader) error {
	buffer := make([]byte, stateBytes)
	for {
		n, err := io.ReadFull(from, buffer)
		ended := errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
		if err != nil && !ended {
			return err
		}
		if uint64(n) > w.left || ended && uint64(n) < w.left {
			return fmt.Errorf("it has not the length in its cut: %d bytes are left of it, and %d came", w.left, n)
		}
		w.left -= uint64(n)
		if n > 0 {
			if err := w.put(statePiece, buffer[:n]); err != nil {
				return err
			}
		}
		if ended {
			return nil
		}
	}
}

// Close writes the end of the backup. It fails if a section is missing.
func (w *Writer) Close() error {
	if len(w.shards) > 0 || !w.begun {
		return errors.New("the backup has not all its sections")
	}
	sum := w.out.hash.Sum(nil)
	data, err := proto.Marshal(&clusterpb.BackupEnd{Bytes: w.out.bytes, Sha256: sum})
	if err != nil {
		return err
	}
	w.sum = hex.EncodeToString(sum)
	return w.put(endPiece, data)
}

// Sum returns the SHA-256 in the backup's last piece, in hexadecimal. It is valid after Close.
func (w *Writer) Sum() string { return w.sum }

// Bytes returns the number of bytes written so far.
func (w *Writer) Bytes() uint64 { return w.out.bytes }

func (w *Writer) put(k kind, payload []byte) error {
	if !w.begun {
		w.begun = true
		if err := w.out.write([]byte(magic)); err != nil {
			return err
		}
	}
	return w.out.put(k, payload)
}
