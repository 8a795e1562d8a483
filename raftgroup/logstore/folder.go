package logstore

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/hashicorp/raft-wal/metadb"
)

// boltName is the file name of a raft-boltdb log.
const boltName = "log.db"

// folder holds the path of a group's folder and knows the layout.
type folder string

func (f folder) lock() string   { return filepath.Join(string(f), "LOCK") }
func (f folder) stable() string { return filepath.Join(string(f), "stable.db") }
func (f folder) wal() string    { return filepath.Join(string(f), "wal") }
func (f folder) bolt() string   { return filepath.Join(string(f), boltName) }

// log returns the file whose presence shows that a log of that kind was made here.
func (f folder) log(kind Kind) string {
	if kind == BoltDB {
		return f.bolt()
	}
	return filepath.Join(f.wal(), metadb.FileName)
}

// checkKind returns an error if the folder holds a log of the other kind.
func (f folder) checkKind(kind Kind) error {
	other := WAL
	if kind == WAL {
		other = BoltDB
	}
	exists, err := fileExists(f.log(other))
	if err != nil {
		return err
	}
	if exists {
		return fmt.Errorf("%w: %s was asked for, and %s holds a %s log", ErrKindMismatch, kind, f, other)
	}
	return nil
}

// size returns the bytes of the folder's files, those allocated ahead included.
func (f folder) size() (int64, error) {
	var total int64
	for _, dir := range []string{string(f), f.wal()} {
		n, err := filesSize(dir)
		if err != nil {
			return 0, err
		}
		total += n
	}
	return total, nil
}

// filesSize sums the files directly in dir. The files and the folder may vanish meanwhile.
func filesSize(dir string) (int64, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	var total int64
	for _, e := range entries {
		info, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) || err == nil && !info.Mode().IsRegular() {
			continue
		}
		if err != nil {
			return 0, err
		}
		total += info.Size()
	}
	return total, nil
}

func fileExists(path string) (bool, error) {
	_, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}
