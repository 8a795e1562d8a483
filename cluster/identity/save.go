package identity

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/belfryhq/belfry/shard/durable"
)

// save replaces the file so that a crash at any line leaves either the old one or the new one, whole.
func (id *Identity) save(r record) error {
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	path := filepath.Join(id.dir, fileName)
	if err := id.writeAside(path+".new", append(data, '\n')); err != nil {
		return err
	}
	if err := id.step("rename"); err != nil {
		return err
	}
	if err := os.Rename(path+".new", path); err != nil {
		return err
	}
	if err := id.step("sync folder"); err != nil {
		return err
	}
	return durable.SyncDir(id.dir)
}

func (id *Identity) writeAside(path string, data []byte) (err error) {
	if err := id.step("create"); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := id.step("write"); err != nil {
		return err
	}
	if _, err := f.Write(data); err != nil {
		return err
	}
	if err := id.step("sync"); err != nil {
		return err
	}
	return f.Sync()
}

// errInUse is kept apart from the system's error so that the message says what to look for.
func errInUse(dir string, err error) error {
	return fmt.Errorf("data folder %s is in use by another process: %w", dir, err)
}
