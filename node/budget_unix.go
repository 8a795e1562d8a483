//go:build unix

package node

import (
	"math"
	"syscall"
)

// descriptors returns the number of files that the process may open. The Go runtime has raised it to the hard limit.
func descriptors() uint64 {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return math.MaxInt32
	}
	return uint64(limit.Cur) //nolint:unconvert // it is signed on FreeBSD
}
