package journal

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// syncData does without what only dates the file: its size does not change.
func syncData(f *os.File) error {
	for {
		err := control(f, unix.Fdatasync)
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// control calls the system with a file's descriptor.
func control(f *os.File, call func(fd int) error) error {
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	if err := raw.Control(func(fd uintptr) { failed = call(int(fd)) }); err != nil {
		return err
	}
	if failed != nil {
		return &os.PathError{Op: "sync", Path: f.Name(), Err: failed}
	}
	return nil
}
