//go:build !chaos

package main

import "time"

// wallClock is what decides when something is due. Durations are measured by the monotonic clock, always.
func wallClock() (func() time.Time, error) { return time.Now, nil }
