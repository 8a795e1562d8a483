package logstore

import (
	"errors"
	"fmt"
	"io/fs"
	"sync"

	"github.com/hashicorp/raft-wal/types"
)

// filerWrap replaces the operations of a log on its segment files.
type filerWrap func(types.SegmentFiler) types.SegmentFiler

// guardedMeta makes a failed or hung write of the meta database fatal. The write of a rotation happens in the
// background, where raft-wal only logs its error. guardedMeta also records the codec in use: raft-wal records its own,
// and would refuse ours at the next start.
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

// guardedFiler does the same for segment files. It also tracks the rotation under way. A rotation begins when an append
// finds its segment sealed, and its effects are complete when the next segment is made.
type guardedFiler struct {
	types.SegmentFiler
	guard    *guard
	removals removals

	mu       sync.Mutex
	rotating chan struct{} // closed when the rotation under way has made its segment; nil: no rotation
}

func (f *guardedFiler) Create(info types.SegmentInfo) (types.SegmentWriter, error) {
	info.Codec = codecID // written into the file's header, and compared with the record of guardedMeta
	var w types.SegmentWriter
	err := f.guard.watch("make a segment of the log", func() (err error) {
		w, err = f.SegmentFiler.Create(info)
		return err
	})
	if err != nil && w != nil { // the guard was shut meanwhile
		err = errors.Join(err, w.Close())
	}
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

// Open opens a sealed segment by its index. A segment whose tail was cut while it was the newest has no index on the
// disk. Recovering it as the newest one builds an index in memory.
func (f *guardedFiler) Open(info types.SegmentInfo) (types.SegmentReader, error) {
	if info.IndexStart == 0 {
		return f.SegmentFiler.RecoverTail(info)
	}
	return f.SegmentFiler.Open(info)
}

// Delete queues the removal of a segment. raft-wal calls it long after it recorded the deletion, when the last reader
// has left, and only logs its error.
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

// awaitRotation waits until no rotation is under way. A failed rotation never ends, but the guard has its error.
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
