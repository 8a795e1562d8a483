package depot

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/belfryhq/belfry/raftgroup/durable"
)

// Folder keeps backups as files of a folder, readable by their owner only.
type Folder string

// part is the suffix of a file while it is written.
const part = ".part"

// Put writes name.part, reads it back, and renames it to name. It first removes the .part files that killed jobs have
// left.
func (f Folder) Put(ctx context.Context, name string, write func(io.Writer) error, check func(io.Reader) error) error {
	if err := f.removeLeft(); err != nil {
		return err
	}
	aside := f.Place(name) + part
	file, err := os.OpenFile(aside, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	if err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return errors.Join(fmt.Errorf("%s is being written by another process: %w", aside, err), file.Close())
	}
	err = fill(file, write, check)
	if err == nil {
		err = ctx.Err()
	}
	if err == nil {
		err = os.Rename(aside, f.Place(name))
	}
	if err != nil {
		return errors.Join(err, os.Remove(aside), file.Close())
	}
	return errors.Join(file.Close(), durable.SyncDir(string(f)))
}

// fill writes an empty file durably, and checks its content.
func fill(file *os.File, write func(io.Writer) error, check func(io.Reader) error) error {
	if err := errors.Join(file.Truncate(0), file.Chmod(0o600)); err != nil {
		return err
	}
	if err := write(file); err != nil {
		return err
	}
	if err := file.Sync(); err != nil {
		return err
	}
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return err
	}
	return check(file)
}

// removeLeft removes the .part files of other jobs that no process is writing. A file of another name may belong to
// another program, and stays.
func (f Folder) removeLeft() error {
	entries, err := os.ReadDir(string(f))
	if err != nil {
		return err
	}
	for _, e := range entries {
		name := e.Name()
		if e.Type().IsRegular() && strings.HasPrefix(name, jobPrefix) && strings.HasSuffix(name, jobSuffix+part) {
			if err := removeOrphan(f.Place(e.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}

// removeOrphan removes a file unless a process holds its lock.
func removeOrphan(path string) error {
	file, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil {
		err = os.Remove(path)
	}
	return errors.Join(err, file.Close())
}

// Open opens a file.
func (f Folder) Open(_ context.Context, name string) (io.ReadCloser, error) {
	return os.Open(f.Place(name))
}

// List returns the names of files.
func (f Folder) List(_ context.Context, prefix string) ([]string, error) {
	entries, err := os.ReadDir(string(f))
	var names []string
	for _, e := range entries { // sorted
		if e.Type().IsRegular() && strings.HasPrefix(e.Name(), prefix) && !strings.HasSuffix(e.Name(), part) {
			names = append(names, e.Name())
		}
	}
	return names, err
}

// Remove removes a file.
func (f Folder) Remove(_ context.Context, name string) error {
	return errors.Join(os.Remove(f.Place(name)), durable.SyncDir(string(f)))
}

// Place returns the path of a file.
func (f Folder) Place(name string) string { return filepath.Join(string(f), name) }
