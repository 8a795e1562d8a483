//go:build !linux && !darwin

package headroom

import (
	"errors"
	"fmt"
)

// SpaceOf returns an error: this system does not report the free room.
func SpaceOf(string) (Space, error) {
	return Space{}, fmt.Errorf("how much room is left on a disk: %w", errors.ErrUnsupported)
}
