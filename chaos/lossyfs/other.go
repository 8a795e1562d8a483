//go:build !linux

package lossyfs

import (
	"errors"
	"syscall"
	"time"
)

var errLinux = errors.New("lossyfs: only on Linux")

// Supported returns an error, because disks need Linux.
func Supported() error { return errLinux }

// Disk is a mounted file system, on Linux.
type Disk struct{}

// Mount returns an error, because disks need Linux.
func Mount(string, string, uint64) (*Disk, error) { return nil, errLinux }

// PowerLoss is not supported here.
func (*Disk) PowerLoss() error { return errLinux }

// Close is not supported here.
func (*Disk) Close() error { return errLinux }

// FailSync is not supported here.
func (*Disk) FailSync(syscall.Errno) {}

// SlowSync is not supported here.
func (*Disk) SlowSync(time.Duration) {}

// FailWrite is not supported here.
func (*Disk) FailWrite(syscall.Errno) {}

// Stall is not supported here.
func (*Disk) Stall() {}

// Unstall is not supported here.
func (*Disk) Unstall() time.Duration { return 0 }

// Limit is not supported here.
func (*Disk) Limit(int64) {}

// Heal is not supported here.
func (*Disk) Heal() {}

// Mountpoint is not supported here.
func (*Disk) Mountpoint() string { return "" }

// Stats is not supported here.
func (*Disk) Stats() Stats { return Stats{} }
