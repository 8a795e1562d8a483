//go:build !linux

package wheel

import "time"

var processStart = time.Now()

// threadTime returns the real time, since this system has no clock for a thread.
func threadTime() time.Duration { return time.Since(processStart) }
