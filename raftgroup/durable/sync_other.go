//go:build !linux

package durable

import "os"

// SyncData makes the data of a file durable whose size has not changed.
func SyncData(f *os.File) error { return f.Sync() }
