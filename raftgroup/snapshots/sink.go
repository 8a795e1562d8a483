package snapshots

import (
	"errors"
	"os"
	"path/filepath"

	"github.com/hashicorp/raft"
)

// ErrOlder says that a newer snapshot was installed while this one was taken. Raft would go on from this one, and
// forget how far the newer one reached (hashicorp/raft issue 248).
var ErrOlder = errors.New("there is a newer snapshot by now")

// sink is where one snapshot is written to.
type sink struct {
	raft.SnapshotSink
	store *Store
	index uint64
	file  *os.File // the file that Raft writes, opened once more for Sync; nil: not yet
}

// Sync brings to the disk the bytes that have been written. Raft itself syncs a snapshot once, when it is closed.
func (s *sink) Sync() (err error) {
	if s.file == nil {
		if s.file, err = os.OpenFile(writing(s.store.dir, s.ID()), os.O_RDWR, 0); err != nil {
			return err
		}
	}
	return s.file.Sync()
}

// Close makes the snapshot whole.
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

// Cancel drops the snapshot.
func (s *sink) Cancel() error { return errors.Join(s.closeFile(), s.SnapshotSink.Cancel()) }

func (s *sink) closeFile() error {
	if s.file == nil {
		return nil
	}
	file := s.file
	s.file = nil
	return file.Close()
}

// writing is the file that Raft writes for a snapshot until that is whole.
func writing(dir, id string) string { return filepath.Join(dir, id+unfinished, "state.bin") }
