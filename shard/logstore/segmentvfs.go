package logstore

import (
	"os"
	"path/filepath"

	"github.com/hashicorp/raft-wal/fs"
	"github.com/hashicorp/raft-wal/types"

	"github.com/belfryhq/belfry/fsm/flaw"
)

// segmentVFS is where the log's segments lie.
func segmentVFS() types.VFS {
	files := lazilyDeleted{fs.New()}
	if flaw.SkippedFsync.On() {
		return unsyncedFiles{files}
	}
	return files
}

// lazilyDeleted deletes a segment without syncing its folder, for which the file system would commit its journal, and
// everybody's next fsync wait. Should the file be there again after a power loss, raft-wal deletes it when it opens the
// log, whose record of its segments is on the disk before any of them is deleted.
type lazilyDeleted struct{ types.VFS }

func (lazilyDeleted) Delete(dir, name string) error { return os.Remove(filepath.Join(dir, name)) }
