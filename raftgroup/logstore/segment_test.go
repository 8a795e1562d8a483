package logstore

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/hashicorp/raft"
	"github.com/hashicorp/raft-wal/types"

	"github.com/belfryhq/belfry/internal/assert"
)

// countedWriters counts the open writers.
type countedWriters struct {
	types.SegmentFiler
	open *atomic.Int64
}

func (f countedWriters) Create(info types.SegmentInfo) (types.SegmentWriter, error) {
	return f.count(f.SegmentFiler.Create(info))
}

func (f countedWriters) RecoverTail(info types.SegmentInfo) (types.SegmentWriter, error) {
	return f.count(f.SegmentFiler.RecoverTail(info))
}

func (f countedWriters) count(w types.SegmentWriter, err error) (types.SegmentWriter, error) {
	if err != nil {
		return nil, err
	}
	f.open.Add(1)
	return countedWriter{w, f.open}, nil
}

type countedWriter struct {
	types.SegmentWriter
	open *atomic.Int64
}

func (w countedWriter) Close() error {
	w.open.Add(-1)
	return w.SegmentWriter.Close()
}

// TestSealedSegmentsNeedNoWriter checks that a sealed segment is read without its writer, whatever is cut, and even
// while it is being sealed.
func TestSealedSegmentsNeedNoWriter(t *testing.T) {
	var open atomic.Int64
	cfg := Config{Dir: t.TempDir(), wrapFiler: func(f types.SegmentFiler) types.SegmentFiler {
		return countedWriters{f, &open}
	}}
	s := mustOpen(t, cfg)
	mustBeOpen := func(want int64) {
		t.Helper()
		awaitIdle(t, s)
		assert.Equal(t, open.Load(), want, "writers are open")
	}
	const last = 2000
	written := make(chan uint64)
	var reader sync.WaitGroup
	reader.Go(func() {
		for upTo := range written {
			for i := uint64(1); i <= upTo; i += 37 {
				var e raft.Log
				if err := s.Log().GetLog(i, &e); err != nil || e.Index != i {
					t.Errorf("entry %d reads as %d, %v", i, e.Index, err)
				}
			}
		}
	})
	for i := uint64(1); i < last; i += 10 {
		mustStore(t, s, entries(i, i+9, 1))
		select {
		case written <- i + 9:
		default:
		}
	}
	close(written)
	reader.Wait()
	if files := len(segmentFiles(t, cfg.Dir)); files < 10 {
		t.Fatalf("only %d segments", files)
	}
	mustBeOpen(1)
	mustHold(t, s.Log(), 1, last, 1)
	assert.NoError(t, s.Log().DeleteRange(1, 700))
	assert.NoError(t, s.Log().DeleteRange(1500, last))
	mustHold(t, s.Log(), 701, 1499, 1)
	mustStore(t, s, entries(1500, 1900, 2))
	mustHold(t, &upTo{s.Log(), 1499}, 701, 1499, 1)
	mustRead(t, s.Log(), 1500, 2)
	mustRead(t, s.Log(), 1900, 2)
	mustClose(t, s)
	assert.Equal(t, open.Load(), 0, "writers are open after the end")
	cfg.SnapshotIndex = 700
	s = mustOpen(t, cfg)
	mustRead(t, s.Log(), 701, 1)
	mustRead(t, s.Log(), 1500, 2)
	mustBeOpen(1)
}

// heldRotation holds up the making of the second segment until the test lets it go.
type heldRotation struct {
	countedWriters
	made     *atomic.Int64
	reached  chan struct{}
	released chan struct{}
}

func (f heldRotation) Create(info types.SegmentInfo) (types.SegmentWriter, error) {
	if f.made.Add(1) == 2 {
		close(f.reached)
		<-f.released
	}
	return f.countedWriters.Create(info)
}

// TestCloseDuringARotation checks that a log that is closed while it makes a segment leaves no file open.
func TestCloseDuringARotation(t *testing.T) {
	var open, made atomic.Int64
	reached, released := make(chan struct{}), make(chan struct{})
	s := mustOpen(t, Config{Dir: t.TempDir(), wrapFiler: func(f types.SegmentFiler) types.SegmentFiler {
		return heldRotation{countedWriters{f, &open}, &made, reached, released}
	}})
	mustStore(t, s, entries(1, 400, 1))
	<-reached
	go func() {
		<-s.guard.failed // Close admits no further write
		close(released)
	}()
	mustClose(t, s)
	assert.Equal(t, open.Load(), 0, "writers are open after the end")
}

// upTo shows a log as if it ended at last.
type upTo struct {
	raft.LogStore
	last uint64
}

func (l *upTo) LastIndex() (uint64, error) { return l.last, nil }

func (l *upTo) GetLog(index uint64, entry *raft.Log) error {
	if index > l.last {
		return raft.ErrLogNotFound
	}
	return l.LogStore.GetLog(index, entry)
}
