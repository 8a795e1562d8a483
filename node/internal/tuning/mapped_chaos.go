//go:build chaos

package tuning

import (
	"fmt"
	"os"
	"sync/atomic"
	"syscall"
	"unsafe"
)

const int64Bytes = 8

// mapInt64 maps the number in the first eight bytes of a file for as long as the process lives.
func mapInt64(path string) (*atomic.Int64, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }() // the mapping stays
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if info.Size() < int64Bytes {
		return nil, fmt.Errorf("%s has %d bytes, not %d", path, info.Size(), int64Bytes)
	}
	mapped, err := syscall.Mmap(int(file.Fd()), 0, int64Bytes, syscall.PROT_READ, syscall.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("mapping %s: %w", path, err)
	}
	return (*atomic.Int64)(unsafe.Pointer(&mapped[0])), nil // the beginning of a page: aligned
}
