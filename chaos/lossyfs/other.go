//go:build !linux

package lossyfs

import (
	"errors"
	"syscall"
	"time"
)

var errLinux = errors.New("lossyfs: only on Linux")

// Supported says what is missing here.
func Supported() error { return errLinux }

// Disk is a mounted file system, on Linux.
type Disk struct{}

// Mount says what is missing here.
func Mount(string, string, uint64) (*Disk, error) { return nil, errLinux }

// PowerLoss is not to be had here.
func (*Disk) PowerLoss() error { return errLinux }

// Close is not to be had here.
func (*Disk) Close() error { return errLinux }

// FailSync is not to be had here.
func (*Disk) FailSync(syscall.Errno) {}

// SlowSync is not to be had here.
func (*Disk) SlowSync(time.Duration) {}

// FailWrite is not to be had here.
func (*Disk) FailWrite(syscall.Errno) {}

// Stall is not to be had here.
func (*Disk) Stall() {}

// Unstall is not to be had here.
func (*Disk) Unstall() time.Duration { return 0 }

// Limit is not to be had here.
func (*Disk) Limit(int64) {}

// Heal is not to be had here.
func (*Disk) Heal() {}

// Mountpoint is not to be had here.
func (*Disk) Mountpoint() string { return "" }

// Stats is not to be had here.
func (*Disk) Stats() Stats { return Stats{} }
