package snapshots

import (
	"errors"
	"os"
	"path/filepath"

	"github.com/hashicorp/raft"

	"github.com/belfryhq/belfry/raftgroup/durable"
)

// ErrOlder is the error of a snapshot that was overtaken by the install of a newer one. Raft would continue from the
// older one and forget how far the newer one reached (hashicorp/raft issue 248).
var ErrOlder = errors.New("there is a newer snapshot by now")

// sink writes one snapshot.
type sink struct {
	raft.SnapshotSink
	store *Store
	index uint64
	file  *os.File // a second handle of the file that Raft writes, for Sync; nil: not yet opened
	dirty int      // bytes written since the last Sync
}

// mostDirty is the number of bytes that a sink writes before it syncs them. Raft syncs a snapshot that another node
// sends only when it is whole, and the next log entry of every group of the node would wait for hundreds of megabytes.
const mostDirty = 1 << 20

// Write writes bytes, and syncs them from time to time.
func (s *sink) Write(b []byte) (int, error) {
	n, err := s.SnapshotSink.Write(b)
	if s.dirty += n; err == nil && s.dirty >= mostDirty {
		err = s.Sync()
	}
	return n, err
}

// Sync syncs the bytes written so far. Raft itself syncs a snapshot once, when it closes it.
func (s *sink) Sync() (err error) {
	if s.file == nil {
		if s.file, err = durable.Open(writing(s.store.dir, s.ID()), os.O_RDWR, 0); err != nil {
			return err
		}
	}
	s.dirty = 0
	return s.file.Sync()
}

// Close completes the snapshot and syncs its folder. It cancels the snapshot with ErrOlder if a newer one exists.
func (s *sink) Close() error {
	s.store.closing.Lock()
	defer s.store.closing.Unlock()
	there, err := s.store.List()
	if err == nil && len(there) > 0 && there[0].Index > s.index {
		err = ErrOlder
	}
	if err = errors.Join(err, s.closeFile()); err != nil {
		return errors.Join(err, s.SnapshotSink.Cancel())
	}
	if err := s.SnapshotSink.Close(); err != nil {
		return err
	}
	return s.store.sync(filepath.Join(s.store.dir, s.ID()))
}

// Cancel deletes the snapshot.
func (s *sink) Cancel() error { return errors.Join(s.closeFile(), s.SnapshotSink.Cancel()) }

func (s *sink) closeFile() error {
	if s.file == nil {
		return nil
	}
	file := s.file
	s.file = nil
	return file.Close()
}

// writing returns the path of the file that Raft writes until the snapshot is complete.
func writing(dir, id string) string { return filepath.Join(dir, id+unfinished, "state.bin") }
