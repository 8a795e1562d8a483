package store

import (
	"bufio"
	"encoding/binary"
	"io"
	"slices"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/internal/slab"
)

// Snapshot is a view of the store at one moment. Taking one costs microseconds. Pages that change afterwards keep
// their before-image until the snapshot is released.
type Snapshot struct {
	header   *fsmpb.SnapshotHeader
	rules    []*fsmpb.QueueRule
	sum      uint64
	tasks    *slab.Frozen[record]
	progress *slab.Frozen[progress]
	blobs    *slab.FrozenArena
	values   shared // only the shared values at that moment are set
}

// Snapshot takes a snapshot. The caller must Release it before it takes the next one.
func (s *Store) Snapshot() *Snapshot {
	return &Snapshot{
		header: &fsmpb.SnapshotHeader{
			Version:        s.Version,
			Shard:          s.shard,
			Number:         s.Number,
			NowMs:          s.NowMs,
			PositionMs:     s.wheel.Position(),
			Origin:         s.Origin,
			TombstoneBytes: s.TombstoneBound,
			HorizonMs:      s.HorizonMs,
			KeepDoneMs:     s.KeepDoneMs,
			Inherited:      s.Inherited,
		},
		rules:    s.queues.allRules(),
		sum:      s.Hash(),
		tasks:    s.tasks.Freeze(),
		progress: s.progress.Freeze(),
		blobs:    s.blobs.Freeze(),
		values:   s.shared.copyForReading(),
	}
}

// Release ends the snapshot. Any goroutine may call it, more than once, and without a WriteTo before.
func (s *Snapshot) Release() {
	s.tasks.Release()
	s.progress.Release()
	s.blobs.Release()
}

// WriteTo writes the snapshot: header, rules, tasks, trailer, each a length-delimited message. It may run on any
// goroutine while the store changes.
func (s *Snapshot) WriteTo(w io.Writer) (int64, error) {
	out := countingWriter{w: bufio.NewWriterSize(w, 256<<10)}
	if err := out.put(s.header); err != nil {
		return out.n, err
	}
	for _, r := range s.rules {
		if err := out.put(&fsmpb.SnapshotRecord{Record: &fsmpb.SnapshotRecord_Rule{Rule: r}}); err != nil {
			return out.n, err
		}
	}
	var written uint64
	var page []record
	var m taskMessage
	for i := range s.tasks.Pages() {
		page = s.tasks.Page(i, page)
		for j := range page {
			if page[j].state == 0 {
				continue
			}
			if err := out.put(m.of(s, &page[j])); err != nil {
				return out.n, err
			}
			written++
		}
	}
	trailer := &fsmpb.SnapshotTrailer{Tasks: written, Sum: s.sum}
	if err := out.put(&fsmpb.SnapshotRecord{Record: &fsmpb.SnapshotRecord_Trailer{Trailer: trailer}}); err != nil {
		return out.n, err
	}
	return out.n, out.w.Flush()
}

type countingWriter struct {
	w       *bufio.Writer
	n       int64
	scratch []byte
}

// put writes a message preceded by its length.
func (c *countingWriter) put(m sizedMessage) error {
	size := m.SizeVT()
	c.scratch = binary.AppendUvarint(c.scratch[:0], uint64(size))
	at := len(c.scratch)
	c.scratch = slices.Grow(c.scratch, size)[:at+size]
	if _, err := m.MarshalToSizedBufferVT(c.scratch[at:]); err != nil {
		return err
	}
	n, err := c.w.Write(c.scratch)
	c.n += int64(n)
	return err
}

// sizedMessage is any message of package fsmpb.
type sizedMessage interface {
	SizeVT() int
	MarshalToSizedBufferVT(b []byte) (int, error)
}
