// Package snapshots opens the files in which hashicorp/raft keeps a group's snapshots, and finds the one that Raft will
// start from.
//
// Raft writes and reads them. Three faults of it are mended here:
//
//   - When the sync of the folder around a snapshot fails, Raft calls the snapshot failed and leaves it there. The next
//     process would take it and drop the log before it. So every folder is synced before a snapshot is read.
//   - Raft never syncs the snapshot's own folder, which names its files. It is synced when the snapshot is closed.
//   - A snapshot that was being written when its process was killed stays, as large as the state. It is removed before
//     the group begins.
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
	folder     = "snapshots" // what Raft calls the one that it makes in a group's
	unfinished = ".tmp"      // what the name of a snapshot ends with while it is written
)

// Store is Raft's, but that a snapshot is on the disk when it is closed: Raft syncs its files, and the folder that it
// is in, but not its own folder, which names the files.
type Store struct {
	*raft.FileSnapshotStore
	dir     string
	sync    func(dir string) error
	closing sync.Mutex // held while one is made whole
}

// Open opens the snapshots in a group's folder for the group, and makes the folder if it is absent. That many snapshots
// are kept, and unfinished ones of earlier processes are removed.
func Open(dir string, kept int, logger *slog.Logger) (*Store, error) {
	if err := removeUnfinished(dir, logger); err != nil {
		return nil, fmt.Errorf("remove unfinished snapshots: %w", err)
	}
	return open(dir, kept, raftlog.New(logger))
}

// Inspect opens them for reading, and removes nothing.
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

// Newest is the one that Raft will start from: the newest whose content is whole. Zeros: there is none.
func Newest(store raft.SnapshotStore) (raft.SnapshotMeta, error) {
	list, err := store.List()
	if err != nil {
		return raft.SnapshotMeta{}, fmt.Errorf("list snapshots: %w", err)
	}
	for _, meta := range list {
		_, content, err := store.Open(meta.ID) // checks the whole content
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
