package logstore

import (
	"errors"
	"os"
	"path/filepath"

	"github.com/hashicorp/raft-wal/fs"
	"github.com/hashicorp/raft-wal/types"

	"github.com/belfryhq/belfry/raftgroup/journal"
)

// segmentVFS returns the file system of the log's segments.
func segmentVFS(j *journal.Journal) types.VFS {
	files := lazilyDeleted{fs.New()}
	if j == nil {
		return files
	}
	return journalled{files, j}
}

// journalled makes appends durable through the node's journal.
type journalled struct {
	types.VFS
	journal *journal.Journal
}

func (v journalled) Create(dir, name string, size uint64) (types.WritableFile, error) {
	f, err := v.VFS.Create(dir, name, size)
	if err != nil {
		return nil, err
	}
	return v.share(f, dir, name, true)
}

func (v journalled) OpenWriter(dir, name string) (types.WritableFile, error) {
	f, err := v.VFS.OpenWriter(dir, name)
	if err != nil {
		return nil, err
	}
	return v.share(f, dir, name, false)
}

func (v journalled) share(f types.WritableFile, dir, name string, isNew bool) (types.WritableFile, error) {
	shared, err := v.journal.File(filepath.Join(dir, name), f, isNew)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return shared, nil
}

// lazilyDeleted deletes a segment without syncing its folder. Such a sync would commit the file system's journal and
// delay every fsync on it. If the file is back after a power loss, raft-wal deletes it when it opens the log. The log's
// record of its segments is on the disk before any of them is deleted.
type lazilyDeleted struct{ types.VFS }

func (lazilyDeleted) Delete(dir, name string) error { return os.Remove(filepath.Join(dir, name)) }
