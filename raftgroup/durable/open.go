package durable

import (
	"errors"
	"os"
	"syscall"
	"time"
)

// Connections that end free descriptors within these times. A disk error is never waited for.
const (
	openAgain = 10 * time.Millisecond
	openFor   = 10 * time.Second
)

// Open is os.OpenFile that waits a while for a free file descriptor if the process or the machine has none.
func Open(path string, flag int, perm os.FileMode) (*os.File, error) {
	for began := time.Now(); ; time.Sleep(openAgain) {
		f, err := os.OpenFile(path, flag, perm)
		if !LacksDescriptors(err) || time.Since(began) > openFor {
			return f, err
		}
	}
}

// LacksDescriptors reports whether an error means that no file could be opened because too many are open. It says
// nothing about the disk, so no data is in doubt.
func LacksDescriptors(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)
}
