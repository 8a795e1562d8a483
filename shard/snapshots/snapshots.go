// Package snapshots opens the files in which hashicorp/raft keeps a group's snapshots, and finds the one that Raft will
// start from.
//
// Writing and reading them is Raft's. What it leaves open is whether a snapshot that is seen is on the disk: when the
// sync of its folder fails, Raft calls the snapshot failed and leaves it where it is, and the next process would take
// it and drop the log before it. So the folder is synced once more before anything is read from it.
// And what a process was killed over stays for ever, as large as the state, unless somebody removes it.
package snapshots

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
)

const (
	folder     = "snapshots" // what Raft calls the one that it makes in a group's
	unfinished = ".tmp"      // what the name of a snapshot ends with while it is written
)

// Open opens the snapshots in a group's folder, making what is absent. That many are kept.
func Open(dir string, kept int, logger hclog.Logger) (*raft.FileSnapshotStore, error) {
	store, err := raft.NewFileSnapshotStoreWithLogger(dir, kept, logger)
	if err != nil {
		return nil, err
	}
	return store, errors.Join(syncFolder(filepath.Join(dir, folder)), syncFolder(dir))
}

// RemoveUnfinished removes from a group's folder the snapshots that never were whole: those that were being written, and
// those that a loss of power has left without what describes them. It is for before Open, by whoever writes them.
func RemoveUnfinished(dir string) error {
	dir = filepath.Join(dir, folder)
	found, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, one := range found {
		path := filepath.Join(dir, one.Name())
		_, err := os.Stat(filepath.Join(path, "meta.json"))
		if one.IsDir() && (strings.HasSuffix(path, unfinished) || errors.Is(err, fs.ErrNotExist)) {
			if err := os.RemoveAll(path); err != nil {
				return err
			}
		}
	}
	return nil
}

func syncFolder(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// Writing is the file that is written for a snapshot until it is whole.
func Writing(dir, id string) string { return filepath.Join(dir, folder, id+unfinished, "state.bin") }

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
