// Package durable makes folders that a loss of power leaves as they are: a file's own sync says nothing of its name.
package durable

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// SyncDir makes a folder's entries durable: names that were made, renamed or removed in it.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// MakeDir makes a folder, and those above it that are missing, and syncs what holds them. One that is there is left as
// it is.
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
