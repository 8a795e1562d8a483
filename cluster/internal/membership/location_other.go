//go:build unix && !linux

package membership

import (
	"os"

	"golang.org/x/sys/unix"
)

func inodeOf(path string) (inode, error) {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return inode{}, &os.PathError{Op: "stat", Path: path, Err: err}
	}
	return inode{Device: uint64(st.Dev), Number: uint64(st.Ino)}, nil //nolint:unconvert // not on every system
}
