package backup

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"

	"google.golang.org/protobuf/proto"

	"github.com/belfryhq/belfry/cluster/clusterpb"
)

// DamageError says where a backup is damaged or cut off.
type DamageError struct {
	At     uint64 // byte of the stream at which the damaged piece begins
	In     string // part of the backup
	Reason string
}

func (e *DamageError) Error() string {
	return fmt.Sprintf("the backup is damaged at byte %d, in %s: %s", e.At, e.In, e.Reason)
}

// errNoBackup is the error of a stream that does not begin as a backup does.
var errNoBackup = errors.New("this is no backup")

// Reader reads a backup and checks all of it on the way.
type Reader struct {
	r      io.Reader
	hash   hash.Hash
	at     uint64 // bytes read
	number uint64 // of the next piece
	in     string // part that is being read
	header *clusterpb.BackupHeader
	next   int // index of the next section
	buffer []byte
	state  []byte // unread payload of the last state piece
	left   uint64 // bytes that the section still lacks, those in state not counted
	sum    string
	err    error // sticks
}

// NewReader reads the beginning of a backup, up to its header.
func NewReader(r io.Reader) (*Reader, error) {
	b := &Reader{r: r, hash: sha256.New(), in: "the beginning"}
	first := make([]byte, len(magic))
	if n, err := io.ReadFull(r, first); err != nil || string(first) != magic {
		if err != nil && !isEnd(err) {
			return nil, err
		}
		if n == len(magic) && string(first[:n-1]) == magic[:n-1] {
			return nil, fmt.Errorf("%w that this build reads: its framing has version %d", errNoBackup, first[n-1])
		}
		return nil, errNoBackup
	}
	b.count(first)
	b.in = "the header"
	payload, err := b.expect(headerPiece)
	if err != nil {
		return nil, err
	}
	b.header = &clusterpb.BackupHeader{}
	if err := proto.Unmarshal(payload, b.header); err != nil {
		return nil, b.damage(b.at, err.Error())
	}
	if b.header.Format > format {
		return nil, fmt.Errorf("the backup has format %d, and this build reads %d at most", b.header.Format, format)
	}
	return b, nil
}

// Header returns the header.
func (b *Reader) Header() *clusterpb.BackupHeader { return b.header }

// Next returns the cut of the next shard. The Reader then reads its state until io.EOF, which the caller must have done
// before it calls Next again. After the last shard, Next checks the end of the backup and returns io.EOF.
func (b *Reader) Next() (*clusterpb.BackupShard, error) {
	if b.err != nil {
		return nil, b.err
	}
	if b.left > 0 || len(b.state) > 0 {
		return nil, fmt.Errorf("%s was not read to its end", b.in)
	}
	if b.next == len(b.header.Shards) {
		b.err = b.end()
		return nil, b.err
	}
	cut := b.header.Shards[b.next]
	b.next++
	b.in = fmt.Sprintf("the section of shard %d", cut.Shard)
	payload, err := b.expect(sectionPiece)
	if err != nil {
		return nil, err
	}
	var repeated clusterpb.BackupShard
	if err := proto.Unmarshal(payload, &repeated); err != nil || !proto.Equal(&repeated, cut) {
		return nil, b.damage(b.at, "the section is not the one in the header")
	}
	b.in, b.left = fmt.Sprintf("the state of shard %d", cut.Shard), cut.Bytes
	return cut, nil
}

// Read reads the state of the shard that Next returned.
func (b *Reader) Read(to []byte) (int, error) {
	for len(b.state) == 0 {
		switch {
		case b.err != nil:
			return 0, b.err
		case b.left == 0:
			return 0, io.EOF
		}
		payload, err := b.expect(statePiece)
		if err != nil {
			return 0, err
		}
		if uint64(len(payload)) > b.left {
			return 0, b.damage(b.at, "the state is longer than its cut says")
		}
		b.state, b.left = payload, b.left-uint64(len(payload))
	}
	n := copy(to, b.state)
	b.state = b.state[n:]
	return n, nil
}

// Sum returns the SHA-256 in the backup's last piece, in hexadecimal. It is valid after Next has returned io.EOF.
func (b *Reader) Sum() string { return b.sum }

// Bytes returns the number of bytes read so far.
func (b *Reader) Bytes() uint64 { return b.at }

// Drain reads the rest of a backup, whose state has no use for the caller, and checks it.
func (b *Reader) Drain() error {
	for {
		if _, err := io.Copy(io.Discard, b); err != nil {
			return err
		}
		switch _, err := b.Next(); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
	}
}

// end reads the last piece, compares it with the bytes before it, and returns io.EOF.
func (b *Reader) end() error {
	b.in = "the end"
	for {
		before, sum := b.at, b.hash.Sum(nil)
		k, payload, err := b.piece()
		switch {
		case err != nil:
			return err
		case k == pausePiece:
			continue
		case k != endPiece:
			return b.damage(before, fmt.Sprintf("a piece of kind %d stands where the backup should end", k))
		}
		var end clusterpb.BackupEnd
		if err := proto.Unmarshal(payload, &end); err != nil {
			return b.damage(before, err.Error())
		}
		if end.Bytes != before || !bytes.Equal(end.Sha256, sum) {
			return b.damage(before, "the bytes before do not have the checksum that stands here")
		}
		b.sum = hex.EncodeToString(sum)
		return b.nothingMore()
	}
}

func (b *Reader) nothingMore() error {
	at := b.at
	switch n, err := io.ReadFull(b.r, make([]byte, 1)); {
	case n > 0:
		return b.damage(at, "further bytes follow the end")
	case !isEnd(err):
		return err
	}
	return io.EOF
}

// expect returns the payload of the next piece, which must be of that kind. Pauses are skipped.
func (b *Reader) expect(want kind) ([]byte, error) {
	for b.err == nil {
		at := b.at
		k, payload, err := b.piece()
		switch {
		case err != nil:
			b.err = err
		case k == want:
			return payload, nil
		case k != pausePiece:
			return nil, b.damage(at, fmt.Sprintf("a piece of kind %d stands where one of kind %d should", k, want))
		}
	}
	return nil, b.err
}

// piece reads one piece and checks it. The payload is valid until the next call.
func (b *Reader) piece() (kind, []byte, error) {
	at := b.at
	var head [headBytes]byte
	if err := b.fill(at, head[:]); err != nil {
		return 0, nil, err
	}
	k, length := kind(head[0]), binary.BigEndian.Uint32(head[1:])
	if !k.known() || length > k.limit() {
		return 0, nil, b.damage(at, "a piece has an unknown kind or is too long")
	}
	if need := int(length) + sumBytes; cap(b.buffer) < need {
		b.buffer = make([]byte, need)
	}
	rest := b.buffer[:int(length)+sumBytes]
	if err := b.fill(at, rest); err != nil {
		return 0, nil, err
	}
	payload := rest[:length]
	if binary.BigEndian.Uint32(rest[length:]) != sumOf(b.number, head[:], payload) {
		return 0, nil, b.damage(at, "a piece does not match its checksum")
	}
	b.number++
	return k, payload, nil
}

// fill reads bytes of the piece that begins at a byte.
func (b *Reader) fill(at uint64, to []byte) error {
	n, err := io.ReadFull(b.r, to)
	b.count(to[:n])
	if isEnd(err) {
		return b.damage(at, fmt.Sprintf("the stream ends after %d bytes, before the backup does", b.at))
	}
	return err
}

func (b *Reader) count(read []byte) {
	b.at += uint64(len(read))
	b.hash.Write(read)
}

func (b *Reader) damage(at uint64, reason string) error {
	b.err = &DamageError{At: at, In: b.in, Reason: reason}
	return b.err
}

func isEnd(err error) bool { return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) }
