//go:build !linux

package wheel

import "time"

var processStart = time.Now()

// threadTime is the clock on the wall where there is no better one.
func threadTime() time.Duration { return time.Since(processStart) }
