package logstore

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"

	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
	"go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"

	"github.com/belfryhq/belfry/raftgroup/durable"
)

// openBolt opens a raft-boltdb file and makes it first if it is absent. It checks all pages once, because bbolt checks
// only its two meta pages at open.
func openBolt(path string) (*raftboltdb.BoltStore, error) {
	if err := createBolt(path); err != nil {
		return nil, fmt.Errorf("making %s: %w", path, err)
	}
	var store *raftboltdb.BoltStore
	err := withoutPanic(func() (err error) {
		if err = checkBolt(path); err != nil {
			return err
		}
		store, err = raftboltdb.New(boltOptions(path))
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("opening %s: %w", path, boltError(err))
	}
	return store, nil
}

func boltOptions(path string) raftboltdb.Options {
	return raftboltdb.Options{Path: path, NoSync: flawSkipsSync(path), BoltOptions: &bbolt.Options{
		Timeout:      lockTimeout,
		FreelistType: bbolt.FreelistMapType,
	}}
}

// checkBolt checks every page that bbolt could visit. No other process may write meanwhile.
func checkBolt(path string) (err error) {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	if info.Size() == 0 { // bbolt would begin a new database in the file
		return fmt.Errorf("%w: the file is empty", ErrDamaged)
	}
	db, err := bbolt.Open(path, 0, &bbolt.Options{Timeout: lockTimeout, ReadOnly: true})
	if err != nil {
		return err
	}
	err = db.View(func(tx *bbolt.Tx) error { return checkBoltPages(tx, file) })
	return errors.Join(err, db.Close())
}

// createBolt makes a file under another name and renames it, because bbolt cannot open a half-made file. It then syncs
// the folder, so that a power loss does not remove the file with the first vote.
func createBolt(path string) error {
	exists, err := fileExists(path)
	if exists || err != nil {
		return err
	}
	tmp := path + ".tmp"
	if err := os.Remove(tmp); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	store, err := raftboltdb.New(boltOptions(tmp))
	if err != nil {
		return err
	}
	if err := store.Close(); err != nil {
		return err
	}
	if err := os.Rename(tmp, path); err != nil {
		return err
	}
	return durable.SyncDir(filepath.Dir(path))
}

// boltError wraps bbolt's errors in those of this package.
func boltError(err error) error {
	switch {
	case errors.Is(err, berrors.ErrTimeout):
		return fmt.Errorf("%w: %w", ErrInUse, err)
	case errors.Is(err, berrors.ErrInvalid), errors.Is(err, berrors.ErrChecksum),
		errors.Is(err, berrors.ErrVersionMismatch):
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return err
}

// withoutPanic converts a panic of fn, or a fault on a page that the file no longer has, into an error. Files that fn
// had open then stay open; the caller gives up on them.
func withoutPanic(fn func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: %v", ErrDamaged, p)
		}
	}()
	return fn()
}
