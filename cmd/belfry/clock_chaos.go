//go:build chaos

package main

import (
	"fmt"
	"os"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"
)

const (
	clockFileVar = "BELFRY_CLOCK_OFFSET_FILE"
	offsetBytes  = 8
)

// wallClock is off by what the file says that BELFRY_CLOCK_OFFSET_FILE names: eight bytes, nanoseconds to be added to
// the machine's clock, as a signed number in the machine's byte order. The file is mapped, so that who writes the eight
// bytes at once sets the clock at that instant. The monotonic clock goes on as it does, and so do the timers.
func wallClock() (func() time.Time, error) {
	path := os.Getenv(clockFileVar)
	if path == "" {
		return time.Now, nil
	}
	offset, err := mapOffset(path)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", clockFileVar, err)
	}
	return func() time.Time { return time.Now().Add(time.Duration(offset.Load())) }, nil
}

// mapOffset maps the file for as long as the process lives.
func mapOffset(path string) (*atomic.Int64, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }() // the mapping stays
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if info.Size() < offsetBytes {
		return nil, fmt.Errorf("%s has %d bytes, not %d", path, info.Size(), offsetBytes)
	}
	mapped, err := syscall.Mmap(int(file.Fd()), 0, offsetBytes, syscall.PROT_READ, syscall.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("mapping %s: %w", path, err)
	}
	return (*atomic.Int64)(unsafe.Pointer(&mapped[0])), nil // the beginning of a page: aligned
}
