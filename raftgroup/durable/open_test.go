package durable

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

func TestLacksDescriptors(t *testing.T) {
	for err, lacks := range map[error]bool{
		nil: false, fs.ErrNotExist: false, syscall.ENOSPC: false, syscall.EIO: false,
		syscall.EMFILE: true,
		fmt.Errorf("wrapped: %w", &os.PathError{Op: "open", Path: "x", Err: syscall.ENFILE}): true,
	} {
		if LacksDescriptors(err) != lacks {
			t.Errorf("%v: %v", err, !lacks)
		}
	}
	if _, err := Open(filepath.Join(t.TempDir(), "none"), os.O_RDONLY, 0); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
}
