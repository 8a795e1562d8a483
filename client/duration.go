package client

import (
	"fmt"
	"time"

	"github.com/belfryhq/belfry/internal/contract"
)

// ParseDuration reads a duration as the service does: in Go's format with d for days of 24 hours ("7d", "1.5d",
// "1d12h"), or in the format of ISO 8601 ("PT30M", "P2D", "P1W"; no years and no months). It rounds parts finer than a
// nanosecond up. A duration that overflows time.Duration becomes the longest possible one, which the service refuses by
// its limit.
func ParseDuration(text string) (time.Duration, error) {
	d, err := contract.ParseDuration(text)
	if err != nil {
		return 0, fmt.Errorf("%q %w", text, err)
	}
	return d, nil
}

// ParseInstant reads an instant as the service does: RFC 3339 with any offset, rounded up to whole milliseconds.
func ParseInstant(text string) (time.Time, error) {
	ms, err := contract.ParseInstant(text)
	if err != nil {
		return time.Time{}, fmt.Errorf("%q %w", text, err)
	}
	return time.UnixMilli(ms).UTC(), nil
}
