//go:build !unix

package node

import "math"

// descriptors returns no limit: this system does not report one.
func descriptors() uint64 { return math.MaxInt32 }
