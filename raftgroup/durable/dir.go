// Package durable makes folders and files survive a loss of power. A file's own sync does not make its name durable.
package durable

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// SyncDir makes a folder's entries durable: names created, renamed or removed in it.
func SyncDir(dir string) error {
	d, err := Open(dir, os.O_RDONLY, 0)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// MakeDir makes a folder and its missing parents, and syncs the folders that hold the new names. An existing folder
// stays as it is.
func MakeDir(dir string) error {
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	parent := filepath.Dir(dir)
	if err := MakeDir(parent); err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return SyncDir(parent)
}
