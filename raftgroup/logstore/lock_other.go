//go:build !unix || solaris || aix

package logstore

import (
	"errors"
	"fmt"
	"os"
)

// lockFile returns an error: without a lock two processes could write one log.
func lockFile(path string) (*os.File, error) {
	return nil, fmt.Errorf("locking %s: %w", path, errors.ErrUnsupported)
}
