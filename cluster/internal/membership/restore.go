package membership

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/belfryhq/belfry/raftgroup/durable"
)

// restoringName is the file that marks a folder into which a backup is being restored.
const restoringName = "RESTORING"

var errRestoring = errors.New("a restore or a recovery into this folder was not finished: run it again")

// BeginRestore opens a folder into which a backup is restored, as a new node. Until Restored, no node opens the folder,
// and only another restore may begin there. The folder must be empty or absent, or left by a restore that was not
// finished, whose files are removed.
func BeginRestore(dir string) (*Identity, error) {
	if err := durable.MakeDir(dir); err != nil {
		return nil, fmt.Errorf("data folder: %w", err)
	}
	if err := emptyForRestore(dir); err != nil {
		return nil, err
	}
	if err := durable.Replace(filepath.Join(dir, restoringName), nil, nil); err != nil {
		return nil, fmt.Errorf("data folder: %w", err)
	}
	return openUnmarked(dir, func(string) error { return nil })
}

// emptyForRestore returns an error if a folder has content that no restore has left. Otherwise it empties the folder,
// except for the mark and the lock.
func emptyForRestore(dir string) error {
	lock, err := lockFolder(dir)
	if err != nil {
		return err
	}
	entries, err := os.ReadDir(dir)
	if err == nil {
		err = removeRemains(dir, entries)
	}
	return errors.Join(err, lock.Close())
}

// alien lists names that may stand in an empty folder: a file system's own, the lock, and the mark.
var alien = []string{"lost+found", "lock", restoringName, restoringName + ".new"}

func removeRemains(dir string, entries []fs.DirEntry) error {
	marked := slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return e.Name() == restoringName })
	for _, e := range entries {
		switch {
		case slices.Contains(alien, e.Name()):
			continue
		case !marked:
			return fmt.Errorf("data folder %s is not empty: it has %s", dir, e.Name())
		}
		if err := os.RemoveAll(filepath.Join(dir, e.Name())); err != nil {
			return fmt.Errorf("data folder: %w", err)
		}
	}
	return nil
}

// Restored marks the folder, durably, as one that a node may open.
func (id *Identity) Restored() error {
	if err := os.Remove(filepath.Join(id.dir, restoringName)); err != nil {
		return err
	}
	return durable.SyncDir(id.dir)
}

// checkRestored returns an error if the restore into a folder was not finished.
func checkRestored(dir string) error {
	_, err := os.Stat(filepath.Join(dir, restoringName))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err == nil:
		return fmt.Errorf("data folder %s: %w", dir, errRestoring)
	}
	return fmt.Errorf("data folder: %w", err)
}

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
