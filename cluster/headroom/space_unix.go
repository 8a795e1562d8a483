//go:build linux || darwin

package headroom

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Space returns the room on the file system of the data folder.
func (s System) Space() (Space, error) {
	dir, err := filepath.Abs(s.Dir)
	if err != nil {
		return Space{}, err
	}
	var st unix.Statfs_t
	for {
		err = unix.Statfs(dir, &st)
		parent := filepath.Dir(dir)
		if !errors.Is(err, fs.ErrNotExist) || parent == dir {
			break
		}
		dir = parent
	}
	if err != nil {
		return Space{}, fmt.Errorf("asking how much room is left at %s: %w", dir, err)
	}
	block := uint64(st.Bsize)
	return Space{Free: st.Bavail * block, Total: st.Blocks * block}, nil
}
