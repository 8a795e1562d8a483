package logstore

import (
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/hashicorp/raft"
)

// backend is a library's log.
type backend interface {
	raft.LogStore
	io.Closer
}

// keyBegan is set in the stable store once the log has acknowledged its first entry. A group with a term, no log and no
// such mark has voted and never stored an entry. With the mark, it has lost its log.
var keyBegan = []byte("belfry/log-began")

// entryOverhead is the approximate size on disk of an entry apart from its data, in bytes.
const entryOverhead = 48

// guardedLog is the raft.LogStore that the group uses.
type guardedLog struct {
	inner   backend
	stable  raft.StableStore // unguarded: writes to it happen inside a guarded write
	guard   *guard
	metrics *metrics // nil: nothing is measured
	began   bool     // keyBegan is set; changes only inside a guarded write
}

var (
	_ raft.LogStore          = (*guardedLog)(nil)
	_ raft.MonotonicLogStore = (*guardedLog)(nil)
)

// IsMonotonic returns true, so that Raft empties the log when it installs a snapshot. raft-wal refuses gaps.
// raft-boltdb accepts them, and Raft would keep the end of the old log there. That end may contradict the snapshot, and
// this replica as leader would send it to others.
func (*guardedLog) IsMonotonic() bool { return true }

func (l *guardedLog) FirstIndex() (uint64, error) { return l.inner.FirstIndex() }

func (l *guardedLog) LastIndex() (uint64, error) { return l.inner.LastIndex() }

// GetLog returns raft.ErrLogNotFound unwrapped, because Raft compares it with ==.
func (l *guardedLog) GetLog(index uint64, entry *raft.Log) error {
	err := l.inner.GetLog(index, entry)
	if errors.Is(err, os.ErrClosed) {
		// The segment was deleted between the lookup and the read. The next lookup finds the present one.
		err = l.inner.GetLog(index, entry)
	}
	return err
}

func (l *guardedLog) StoreLog(entry *raft.Log) error { return l.StoreLogs([]*raft.Log{entry}) }

func (l *guardedLog) StoreLogs(entries []*raft.Log) error {
	if len(entries) == 0 {
		return nil
	}
	began := time.Now()
	err := l.guard.run("append to the log", func() error {
		// A crash between the entries and the mark leaves a log without mark, which the next Open sees. A mark without log
		// would count as a loss.
		if err := l.inner.StoreLogs(entries); err != nil || l.began {
			return err
		}
		return l.markBegan()
	})
	if err == nil && l.metrics != nil {
		l.metrics.appended(entries, time.Since(began))
	}
	return err
}

// markBegan runs in a guarded write.
func (l *guardedLog) markBegan() error {
	if err := l.stable.SetUint64(keyBegan, 1); err != nil {
		return fmt.Errorf("marking that the log has begun: %w", err)
	}
	l.began = true
	return nil
}

func (l *guardedLog) DeleteRange(first, last uint64) error {
	return l.guard.run("delete from the log", func() error { return l.inner.DeleteRange(first, last) })
}

// guardedStable is the raft.StableStore that the group uses. Its reads return "not found" unwrapped, because Raft
// compares the text.
type guardedStable struct {
	raft.StableStore
	guard *guard
}

func (s *guardedStable) Set(key, val []byte) error {
	return s.guard.run("write the vote", func() error { return s.StableStore.Set(key, val) })
}

func (s *guardedStable) SetUint64(key []byte, val uint64) error {
	return s.guard.run("write the term", func() error { return s.StableStore.SetUint64(key, val) })
}
