package identity

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// Inspect opens a data folder to look at it: it changes nothing, and keeps nodes out until it is closed. A folder that
// a running node has open is refused.
func Inspect(dir string) (*Identity, error) {
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

// Groups are those that the folder's record says have lived here.
func (id *Identity) Groups() []uint32 {
	id.mu.Lock()
	defer id.mu.Unlock()
	return append([]uint32(nil), id.now.Groups...)
}
