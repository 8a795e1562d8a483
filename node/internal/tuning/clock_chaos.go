//go:build chaos

package tuning

import (
	"fmt"
	"os"
	"time"
)

const clockFileVar = "BELFRY_CLOCK_OFFSET_FILE"

// Clock returns the machine's clock, moved by the number in the file that BELFRY_CLOCK_OFFSET_FILE names: eight bytes,
// signed nanoseconds in the machine's byte order. The file is mapped, so a write of all eight bytes sets the clock at
// that instant. The monotonic clock and the timers stay as they are.
func Clock() (func() time.Time, error) {
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
