package backup

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io"

	"google.golang.org/protobuf/proto"

	"github.com/belfryhq/belfry/cluster/clusterpb"
)

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
	h.Format = Format
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
