package durable

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// SyncData makes the data of a file durable whose size has not changed.
func SyncData(f *os.File) error {
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = raw.Control(func(fd uintptr) {
		for failed = unix.EINTR; errors.Is(failed, unix.EINTR); {
			failed = unix.Fdatasync(int(fd))
		}
	})
	if failed != nil {
		err = &os.PathError{Op: "sync", Path: f.Name(), Err: failed}
	}
	return err
}
