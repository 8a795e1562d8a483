// Package snapshots opens the files in which hashicorp/raft keeps a group's snapshots, and finds the snapshot that Raft
// will start from.
//
// Raft writes and reads the snapshots. This package mends three of its faults:
//
//   - When the sync of the folder around a snapshot fails, Raft reports a failed snapshot and leaves it there. The next
//     process would use it and drop the log before it. So Open syncs every folder before a snapshot is read.
//   - Raft never syncs the snapshot's own folder, which names its files. Closing the snapshot syncs it.
//   - A snapshot that was being written when its process was killed stays, as large as the state. Open removes it
//     before the group begins.
package snapshots

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"github.com/belfryhq/belfry/raftgroup/durable"
	"github.com/belfryhq/belfry/raftgroup/raftlog"
)

const (
	folder     = "snapshots" // Raft's name for its folder in a group's
	unfinished = ".tmp"      // suffix of a snapshot's name while it is written
)

// Store is Raft's store, except that a snapshot is on the disk when it is closed. Raft itself syncs the snapshot's
// files and the folder around it, but not its own folder, which names the files.
type Store struct {
	*raft.FileSnapshotStore
	dir     string
	sync    func(dir string) error
	closing sync.Mutex // held while a snapshot is completed
}

// Open opens the snapshots in a group's folder for the group, and makes the folder if it is absent. It keeps the newest
// kept snapshots and removes unfinished ones of earlier processes.
func Open(dir string, kept int, logger *slog.Logger) (*Store, error) {
	if err := removeUnfinished(dir, logger); err != nil {
		return nil, fmt.Errorf("remove unfinished snapshots: %w", err)
	}
	return open(dir, kept, raftlog.New(logger))
}

// Inspect opens the snapshots for reading and removes none.
func Inspect(dir string) (*Store, error) {
	const all = 1 << 10 // more than a group keeps
	return open(dir, all, hclog.NewNullLogger())
}

func open(dir string, kept int, logger hclog.Logger) (*Store, error) {
	files, err := raft.NewFileSnapshotStoreWithLogger(dir, kept, logger)
	if err != nil {
		return nil, err
	}
	s := &Store{FileSnapshotStore: files, dir: filepath.Join(dir, folder), sync: durable.SyncDir}
	found, err := folders(s.dir)
	if err != nil {
		return nil, err
	}
	for _, name := range found {
		err = errors.Join(err, s.sync(filepath.Join(s.dir, name)))
	}
	return s, errors.Join(err, s.sync(s.dir), s.sync(dir))
}

// Create begins a snapshot.
func (s *Store) Create(version raft.SnapshotVersion, index, term uint64, members raft.Configuration, changed uint64,
	transport raft.Transport) (raft.SnapshotSink, error) {
	created, err := s.FileSnapshotStore.Create(version, index, term, members, changed, transport)
	if err != nil {
		return nil, err
	}
	return &sink{SnapshotSink: created, store: s, index: index}, nil
}

// removeUnfinished removes from a group's folder the snapshots that were being written when their process ended.
func removeUnfinished(dir string, logger *slog.Logger) error {
	dir = filepath.Join(dir, folder)
	found, err := folders(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, name := range found {
		if strings.HasSuffix(name, unfinished) {
			logger.Info("a snapshot was never finished and is removed", "name", name)
			err = errors.Join(err, os.RemoveAll(filepath.Join(dir, name)))
		}
	}
	return err
}

func folders(dir string) (names []string, err error) {
	found, err := os.ReadDir(dir)
	for _, one := range found {
		if one.IsDir() {
			names = append(names, one.Name())
		}
	}
	return names, err
}

// Newest returns the snapshot that Raft will start from: the newest one whose content is whole. It returns the zero
// SnapshotMeta if there is none.
func Newest(store raft.SnapshotStore) (raft.SnapshotMeta, error) {
	list, err := store.List()
	if err != nil {
		return raft.SnapshotMeta{}, fmt.Errorf("list snapshots: %w", err)
	}
	for _, meta := range list {
		_, content, err := store.Open(meta.ID) // Open checks the whole content
		if err != nil {
			continue
		}
		if err := content.Close(); err != nil {
			return raft.SnapshotMeta{}, fmt.Errorf("snapshot %s: %w", meta.ID, err)
		}
		return *meta, nil
	}
	if len(list) > 0 {
		return raft.SnapshotMeta{}, fmt.Errorf("none of %d snapshots can be read", len(list))
	}
	return raft.SnapshotMeta{}, nil
}
