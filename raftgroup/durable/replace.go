package durable

import (
	"errors"
	"os"
	"path/filepath"
)

// Replace makes data the content of the file at path. It writes and syncs a new file aside, renames it and syncs the
// folder. A crash at any step leaves the old file or the new one, whole. Replace calls step before each of its steps
// and stops with its error; step may be nil.
func Replace(path string, data []byte, step func(name string) error) error {
	return ReplaceWith(path, func(*os.File) ([]byte, error) { return data, nil }, step)
}

// ReplaceWith is Replace for data that depends on the new file. content gets that file while it is empty, and must not
// write to it.
func ReplaceWith(path string, content func(aside *os.File) ([]byte, error), step func(name string) error) error {
	if step == nil {
		step = func(string) error { return nil }
	}
	aside := path + ".new"
	if err := writeAside(aside, content, step); err != nil {
		return err
	}
	if err := step("rename"); err != nil {
		return err
	}
	if err := os.Rename(aside, path); err != nil {
		return err
	}
	if err := step("sync folder"); err != nil {
		return err
	}
	return SyncDir(filepath.Dir(path))
}

func writeAside(path string, content func(*os.File) ([]byte, error), step func(string) error) (err error) {
	if err := step("create"); err != nil {
		return err
	}
	f, err := Open(path, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	data, err := content(f)
	if err != nil {
		return err
	}
	if err := step("write"); err != nil {
		return err
	}
	if _, err := f.Write(data); err != nil {
		return err
	}
	if err := step("sync"); err != nil {
		return err
	}
	return f.Sync()
}
