// Package wait waits for a while, unless a context ends first.
package wait

import (
	"context"
	"time"
)

// For waits for d. It returns false as soon as ctx ends, and at once if ctx has ended before.
func For(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
