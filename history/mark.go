package history

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"

	"github.com/belfryhq/belfry/history/historypb"
	"github.com/belfryhq/belfry/history/internal/segment"
)

const (
	markName = "mark"
	draft    = ".draft" // ends the names of files that are not whole yet
)

// saveMark writes a mark of the floors and of the index of the last Sync. disk is held.
func (s *Shard) saveMark(f floors, synced uint64) error { return writeMark(s.dir, f.mark(synced)) }

// saveFloors writes the floors that have risen in memory only.
func (s *Shard) saveFloors() error {
	s.disk.Lock()
	defer s.disk.Unlock()
	if !s.unsaved || s.isClosed() {
		return nil
	}
	f, synced := s.floorsNow()
	if err := s.saveMark(f, synced); err != nil {
		return err
	}
	s.unsaved = false
	return nil
}

// floorsNow returns a copy of the floors, and the index of the last Sync.
func (s *Shard) floorsNow() (floors, uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.floors.clone(), s.synced
}

// writeMark replaces the mark of a folder.
func writeMark(dir string, m *historypb.Mark) error {
	data, err := m.MarshalVT()
	if err != nil {
		return err
	}
	sum := crc32.Checksum(data, crc32.MakeTable(crc32.Castagnoli))
	path := filepath.Join(dir, markName)
	if err := writeSynced(path+draft, binary.LittleEndian.AppendUint32(data, sum)); err != nil {
		return err
	}
	if err := os.Rename(path+draft, path); err != nil {
		return err
	}
	return syncDir(dir)
}

func writeSynced(path string, data []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o640)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Sync(), f.Close())
}

// readMark returns the mark of a folder, or an empty one if there is none. A damaged mark is segment.ErrCorrupt.
func readMark(dir string) (*historypb.Mark, error) {
	m := &historypb.Mark{}
	data, err := os.ReadFile(filepath.Join(dir, markName))
	if errors.Is(err, os.ErrNotExist) {
		return m, nil
	}
	if err != nil {
		return nil, err
	}
	n := len(data) - 4
	if n < 0 || crc32.Checksum(data[:n], crc32.MakeTable(crc32.Castagnoli)) != binary.LittleEndian.Uint32(data[n:]) {
		return m, fmt.Errorf("%w: the mark", segment.ErrCorrupt)
	}
	return m, m.UnmarshalVTUnsafe(data[:n])
}
