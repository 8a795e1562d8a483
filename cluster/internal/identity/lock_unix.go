//go:build unix

package identity

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// lockFolder takes an advisory lock, which lasts while the file is open; the system drops it with the process.
func lockFolder(dir string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("data folder: %w", err)
	}
	return locked(dir, f)
}

// lockToLook takes the same lock as lockFolder without creating or writing anything.
func lockToLook(dir string) (*os.File, error) {
	f, err := os.Open(filepath.Join(dir, "lock"))
	if err != nil {
		return nil, fmt.Errorf("data folder: %w", err)
	}
	return locked(dir, f)
}

func locked(dir string, f *os.File) (*os.File, error) {
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return nil, errors.Join(errInUse(dir, err), f.Close())
	}
	return f, nil
}
