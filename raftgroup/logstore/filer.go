package logstore

import (
	"errors"
	"fmt"
	"io/fs"
	"sync"

	"github.com/hashicorp/raft-wal/types"
)

// filerWrap replaces what a log does with its segment files.
type filerWrap func(types.SegmentFiler) types.SegmentFiler

// guardedMeta makes a failed or hung write of the meta database fatal: a rotation's happens in the background, where
// raft-wal only logs it. It also records the codec in use: raft-wal records its own, and refuses it at the next start.
type guardedMeta struct {
	types.MetaStore
	guard *guard
}

func (m *guardedMeta) CommitState(state types.PersistentState) error {
	for i := range state.Segments {
		state.Segments[i].Codec = codecID
	}
	return m.guard.watch("record the log's segments", func() error { return m.MetaStore.CommitState(state) })
}

// guardedFiler does the same for segment files. It also knows whether a rotation is under way: that begins when an
// append finds its segment sealed, and has done all that matters when the next segment is made.
type guardedFiler struct {
	types.SegmentFiler
	guard    *guard
	removals removals

	mu       sync.Mutex
	rotating chan struct{} // closed when the rotation that is under way has made its segment; nil: none is
}

func (f *guardedFiler) Create(info types.SegmentInfo) (types.SegmentWriter, error) {
	info.Codec = codecID // goes into the file's header, and is compared with what guardedMeta recorded
	var w types.SegmentWriter
	err := f.guard.watch("make a segment of the log", func() (err error) {
		w, err = f.SegmentFiler.Create(info)
		return err
	})
	if err != nil {
		return nil, err
	}
	f.rotated()
	return newSegmentWriter(f, info, w), nil
}

func (f *guardedFiler) RecoverTail(info types.SegmentInfo) (types.SegmentWriter, error) {
	w, err := f.SegmentFiler.RecoverTail(info)
	if err != nil {
		return nil, err
	}
	return newSegmentWriter(f, info, w), nil
}

// Open reads a sealed segment by its index. One whose tail was cut while it was the newest has none on disk; reading it
// as if it were still the newest builds one in memory.
func (f *guardedFiler) Open(info types.SegmentInfo) (types.SegmentReader, error) {
	if info.IndexStart == 0 {
		return f.SegmentFiler.RecoverTail(info)
	}
	return f.SegmentFiler.Open(info)
}

// Delete is called long after the deletion was recorded, when the last reader is gone, and its error only logged.
func (f *guardedFiler) Delete(baseIndex, id uint64) error {
	f.removals.add(func() error {
		err := f.SegmentFiler.Delete(baseIndex, id)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	})
	return nil
}

func (f *guardedFiler) rotates() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rotating = make(chan struct{})
}

func (f *guardedFiler) rotated() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.rotating != nil {
		close(f.rotating)
		f.rotating = nil
	}
}

// awaitRotation returns when no rotation is under way. One that failed never ends; the guard knows of it.
func (f *guardedFiler) awaitRotation() error {
	f.mu.Lock()
	rotating := f.rotating
	f.mu.Unlock()
	if rotating == nil {
		return nil
	}
	select {
	case <-rotating:
		return nil
	case <-f.guard.failed:
		return fmt.Errorf("rotating the log: %w", f.guard.err)
	}
}
