package logstore

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/hashicorp/raft-wal/segment"
	"github.com/hashicorp/raft-wal/types"
)

// recoverSegments checks every segment in dir and repairs the newest one so that raft-wal can recover it.
func recoverSegments(dir string, meta types.MetaStore) error {
	state, err := meta.Load(dir)
	if err != nil {
		return fmt.Errorf("reading the list of segments in %s: %w", dir, err)
	}
	for _, info := range state.Segments {
		if info.SealTime.IsZero() {
			return recoverNewest(dir, meta, state)
		}
		if err := checkSealed(dir, info); err != nil {
			return err
		}
	}
	return nil
}

// checkSealed reads a sealed segment through. A segment whose tail was cut while it was the newest has no index, and
// may hold more entries than count.
func checkSealed(dir string, info types.SegmentInfo) error {
	path := filepath.Join(dir, segment.FileName(info))
	b, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("%w: a segment of the log: %w", ErrDamaged, err)
	}
	s := scanSegment(b)
	if info.IndexStart != 0 && s.indexStart != info.IndexStart || info.BaseIndex+s.entries <= info.MaxIndex {
		return fmt.Errorf("%w: segment %s is whole to entry %d only, of %d",
			ErrDamaged, path, info.BaseIndex+s.entries-1, info.MaxIndex)
	}
	return nil
}

// recoverNewest distinguishes a torn segment from a damaged one, removes one that holds no entry and was made only in
// part, cuts off a torn end, and completes an interrupted rotation.
func recoverNewest(dir string, meta types.MetaStore, state types.PersistentState) error {
	info := state.Segments[len(state.Segments)-1]
	path := filepath.Join(dir, segment.FileName(info))
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // recorded and not yet made: raft-wal makes it
	}
	if err != nil {
		return fmt.Errorf("reading the newest segment: %w", err)
	}
	s := scanSegment(b)
	last := info.BaseIndex + s.entries - 1
	if index, found := lostEntry(b[s.end:], last); found {
		return fmt.Errorf("%w: segment %s is whole to entry %d only, though entry %d was written later",
			ErrDamaged, path, last, index)
	}
	if s.end == 0 && len(b) < int(info.SizeLimit) {
		if err := os.Remove(path); err != nil { // raft-wal makes it anew, at its full size
			return fmt.Errorf("removing a segment without its full size: %w", err)
		}
		return nil
	}
	if err := cutTorn(path, b[s.end:], int64(s.end)); err != nil {
		return fmt.Errorf("cutting a torn write off %s: %w", path, err)
	}
	if !s.sealed() {
		return nil
	}
	return meta.CommitState(rotatedState(state, s))
}

// cutTorn overwrites the remains of a torn write with zeros, so that they are never mistaken for part of a later write.
func cutTorn(path string, rest []byte, at int64) error {
	n := len(rest)
	for n > 0 && rest[n-1] == 0 {
		n--
	}
	if n == 0 {
		return nil
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(make([]byte, n), at)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// rotatedState returns the state that raft-wal would have recorded next: the newest segment sealed, and a next one.
func rotatedState(state types.PersistentState, s segmentScan) types.PersistentState {
	segments := append([]types.SegmentInfo(nil), state.Segments...)
	sealed := &segments[len(segments)-1]
	sealed.SealTime = time.Now()
	sealed.MaxIndex = sealed.BaseIndex + s.entries - 1
	sealed.IndexStart = s.indexStart
	next := types.SegmentInfo{
		ID:         state.NextSegmentID,
		BaseIndex:  sealed.MaxIndex + 1,
		MinIndex:   sealed.MaxIndex + 1,
		Codec:      sealed.Codec,
		CreateTime: time.Now(),
		SizeLimit:  sealed.SizeLimit,
	}
	return types.PersistentState{NextSegmentID: state.NextSegmentID + 1, Segments: append(segments, next)}
}
