package logstore

import (
	"errors"
	"fmt"

	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
)

// checkFiles returns an error if only one of log and votes exists, or if the folder is empty although the group was
// opened here. logFound reports whether the log's file exists. A first start makes the votes' file first, so a crash
// during it leaves no log without votes.
func (f folder) checkFiles(cfg Config) (logFound bool, err error) {
	logFound, err = fileExists(f.log(cfg.Kind))
	if err != nil {
		return false, err
	}
	votesFound, err := fileExists(f.stable())
	if err != nil {
		return false, err
	}
	switch {
	case !votesFound && logFound:
		err = fmt.Errorf("%w: %s has a log, and %s is missing", ErrLostLog, f, f.stable())
	case !votesFound && cfg.SnapshotIndex > 0:
		err = fmt.Errorf("%w: there is a snapshot to entry %d, and %s is missing", ErrLostLog, cfg.SnapshotIndex, f.stable())
	case !votesFound && cfg.Existing:
		err = fmt.Errorf("%w: this node has opened the group before, and %s is missing", ErrLostLog, f.stable())
	case !logFound && cfg.Existing:
		err = fmt.Errorf("%w: this node has opened the group before, and %s is missing", ErrLostLog, f.log(cfg.Kind))
	}
	return logFound, err
}

func logBegan(stable raft.StableStore) (bool, error) {
	n, err := stable.GetUint64(keyBegan)
	if errors.Is(err, raftboltdb.ErrKeyNotFound) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("reading the votes' file: %w", err)
	}
	return n > 0, nil
}

// settle aligns the log with the snapshot and reads the whole log once.
func (s *Stores) settle(cfg Config) error {
	if err := s.checkBegun(cfg); err != nil {
		return err
	}
	if err := s.alignWithSnapshot(cfg); err != nil {
		return err
	}
	return s.readThrough(cfg.SnapshotIndex)
}

// checkBegun returns an error for an empty log that has acknowledged entries, unless a snapshot covers them.
func (s *Stores) checkBegun(cfg Config) error {
	last, err := s.inner.LastIndex()
	if err != nil {
		return err
	}
	holds := last > 0 || cfg.SnapshotIndex > 0
	switch {
	case holds && !s.log.began:
		return s.guard.run("mark the log", s.log.markBegan)
	case !holds && s.log.began:
		return fmt.Errorf("%w: the log in %s had entries, and there are none, nor a snapshot", ErrLostLog, cfg.Dir)
	}
	return nil
}

// alignWithSnapshot completes the install of a snapshot that a crash interrupted: it empties a log that does not
// continue the snapshot. Appending behind the gap would fail for ever in a wal. Entries that contradict the snapshot
// were never committed.
func (s *Stores) alignWithSnapshot(cfg Config) error {
	if cfg.SnapshotIndex == 0 {
		return nil
	}
	first, last, err := bounds(s.inner)
	if err != nil || last == 0 {
		return err
	}
	continues, err := continuesSnapshot(s.inner, first, last, cfg)
	if err != nil || continues {
		return err
	}
	cfg.Logger.Warn("the log does not continue the newest snapshot and is emptied",
		"dir", cfg.Dir, "first", first, "last", last, "snapshot", cfg.SnapshotIndex)
	return s.log.DeleteRange(first, last)
}

func continuesSnapshot(log raft.LogStore, first, last uint64, cfg Config) (bool, error) {
	if last < cfg.SnapshotIndex {
		return false, nil
	}
	if first > cfg.SnapshotIndex || cfg.SnapshotTerm == 0 {
		return true, nil
	}
	var entry raft.Log
	err := log.GetLog(cfg.SnapshotIndex, &entry)
	if errors.Is(err, raft.ErrLogNotFound) {
		return true, nil // a bolt log may have a gap there
	}
	if err != nil {
		return false, damagedEntry(cfg.SnapshotIndex, err)
	}
	return entry.Term == cfg.SnapshotTerm, nil
}

// readThrough reads every entry and keeps the last configuration. Raft needs all entries behind the snapshot and panics
// if one is missing. Before the snapshot's end, a bolt log may have a gap.
func (s *Stores) readThrough(snapshot uint64) error {
	log := s.inner
	first, last, err := bounds(log)
	if err != nil || last == 0 {
		return err
	}
	if first > snapshot+1 {
		return fmt.Errorf("%w: the log begins at entry %d, and the newest valid snapshot ends at %d",
			ErrLostLog, first, snapshot)
	}
	for index := first; index <= last; index++ {
		entry, err := readEntry(log, index, snapshot)
		if err != nil {
			return err
		}
		if entry.Type == raft.LogConfiguration {
			s.configuration, s.configured = raft.DecodeConfiguration(entry.Data), index
		}
	}
	return nil
}

func readEntry(log raft.LogStore, index, snapshot uint64) (entry raft.Log, err error) {
	err = log.GetLog(index, &entry)
	if errors.Is(err, raft.ErrLogNotFound) && index <= snapshot {
		return raft.Log{}, nil
	}
	if err != nil {
		return raft.Log{}, damagedEntry(index, err)
	}
	if entry.Index != index {
		return raft.Log{}, fmt.Errorf("%w: in place of entry %d there is entry %d", ErrDamaged, index, entry.Index)
	}
	return entry, nil
}

func damagedEntry(index uint64, err error) error {
	return fmt.Errorf("%w: reading entry %d of the log: %w", ErrDamaged, index, err)
}

func bounds(log raft.LogStore) (first, last uint64, err error) {
	if first, err = log.FirstIndex(); err != nil {
		return 0, 0, err
	}
	last, err = log.LastIndex()
	return first, last, err
}
