package identity

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// Inspect opens a data folder read-only, and keeps nodes out of it until Close. It fails if a running node has the
// folder open.
func Inspect(dir string) (*Identity, error) {
	if err := checkRestored(dir); err != nil {
		return nil, err
	}
	if _, err := os.Stat(filepath.Join(dir, fileName)); err != nil {
		return nil, fmt.Errorf("%s is no node's data folder: %w", dir, err)
	}
	lock, err := lockToLook(dir)
	if err != nil {
		return nil, err
	}
	id := &Identity{dir: dir, lock: lock, step: func(string) error { return errors.New("it is only looked at") }}
	if err := id.load(); err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	copied, err := id.moved()
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	id.now.Copied = id.now.Copied || copied
	return id, nil
}

// Groups returns the groups that have lived here by the folder's record.
func (id *Identity) Groups() []uint32 {
	id.mu.Lock()
	defer id.mu.Unlock()
	return append([]uint32(nil), id.now.Groups...)
}
