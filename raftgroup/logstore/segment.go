package logstore

import (
	"sync"

	"github.com/hashicorp/raft-wal/types"
)

// segmentWriter notices that its segment is sealed, and from then on reads the segment by the index in its file.
// raft-wal would read a sealed segment through its writer until the process ends or the segment is deleted. A writer
// holds a table of 128 KiB and the buffer of its largest append, which came to tens of megabytes over the segments of a
// dozen groups.
type segmentWriter struct {
	filer *guardedFiler
	info  types.SegmentInfo

	mu     sync.RWMutex        // held during reads: writer and reader may be closed at the same time
	writer types.SegmentWriter // nil once reader is set
	reader types.SegmentReader // of the sealed segment
}

func newSegmentWriter(f *guardedFiler, info types.SegmentInfo, w types.SegmentWriter) *segmentWriter {
	return &segmentWriter{filer: f, info: info, writer: w}
}

func (w *segmentWriter) Append(entries []types.LogEntry) error {
	if w.writer == nil {
		return types.ErrSealed
	}
	return w.writer.Append(entries)
}

// Sealed reports whether the segment is sealed. raft-wal calls it after each append.
func (w *segmentWriter) Sealed() (bool, uint64, error) {
	if w.writer == nil {
		w.filer.rotates()
		return true, w.info.IndexStart, nil
	}
	sealed, start, err := w.writer.Sealed()
	if sealed && err == nil {
		w.filer.rotates()
		w.readByIndex(start)
	}
	return sealed, start, err
}

// readByIndex replaces the writer by a reader. If the reader cannot be opened, the writer stays.
func (w *segmentWriter) readByIndex(start uint64) {
	info := w.info
	info.IndexStart, info.MaxIndex = start, w.writer.LastIndex()
	reader, err := w.filer.SegmentFiler.Open(info)
	if err != nil {
		return
	}
	w.mu.Lock()
	writer := w.writer
	w.writer, w.reader, w.info = nil, reader, info
	w.mu.Unlock()
	_ = writer.Close() // all written bytes are synced
}

func (w *segmentWriter) ForceSeal() (uint64, error) {
	if w.writer == nil {
		return w.info.IndexStart, nil
	}
	return w.writer.ForceSeal()
}

func (w *segmentWriter) LastIndex() uint64 {
	w.mu.RLock()
	defer w.mu.RUnlock()
	if w.writer == nil {
		return w.info.MaxIndex
	}
	return w.writer.LastIndex()
}

func (w *segmentWriter) GetLog(index uint64) (*types.PooledBuffer, error) {
	w.mu.RLock()
	defer w.mu.RUnlock()
	if w.writer == nil {
		return w.reader.GetLog(index)
	}
	return w.writer.GetLog(index)
}

func (w *segmentWriter) Close() error {
	w.mu.RLock()
	defer w.mu.RUnlock()
	if w.writer == nil {
		return w.reader.Close()
	}
	return w.writer.Close()
}
