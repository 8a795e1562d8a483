//go:build chaos

package main

import (
	"fmt"
	"os"
	"time"
)

const clockFileVar = "BELFRY_CLOCK_OFFSET_FILE"

// wallClock is off by what the file says that BELFRY_CLOCK_OFFSET_FILE names: eight bytes, nanoseconds to be added to
// the machine's clock, as a signed number in the machine's byte order. The file is mapped, so that who writes the eight
// bytes at once sets the clock at that instant. The monotonic clock goes on as it does, and so do the timers.
func wallClock() (func() time.Time, error) {
	path := os.Getenv(clockFileVar)
	if path == "" {
		return time.Now, nil
	}
	offset, err := mapInt64(path)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", clockFileVar, err)
	}
	return func() time.Time { return time.Now().Add(time.Duration(offset.Load())) }, nil
}
