//go:build chaos

package logstore

import (
	"path/filepath"

	"github.com/hashicorp/raft-wal/fs"
	"github.com/hashicorp/raft-wal/types"

	"github.com/belfryhq/belfry/fsm/flaw"
)

// flawSkipsSync reports whether the bolt file at path stays unsynced. That holds for a log; votes are synced.
func flawSkipsSync(path string) bool {
	return flaw.SkippedFsync.On() && filepath.Base(path) == boltName
}

// flawUnsyncs returns the files of a log. With the flaw, they are not synced.
func flawUnsyncs(synced types.VFS) types.VFS {
	if flaw.SkippedFsync.On() {
		return unsyncedFiles{lazilyDeleted{fs.New()}}
	}
	return synced
}

// unsyncedFiles acknowledges writes that are only in the kernel's memory.
type unsyncedFiles struct{ types.VFS }

func (u unsyncedFiles) Create(dir, name string, size uint64) (types.WritableFile, error) {
	return unsynced(u.VFS.Create(dir, name, size))
}

func (u unsyncedFiles) OpenWriter(dir, name string) (types.WritableFile, error) {
	return unsynced(u.VFS.OpenWriter(dir, name))
}

type unsyncedFile struct{ types.WritableFile }

func unsynced(f types.WritableFile, err error) (types.WritableFile, error) {
	if err != nil {
		return nil, err
	}
	return unsyncedFile{f}, nil
}

func (unsyncedFile) Sync() error { return nil }
