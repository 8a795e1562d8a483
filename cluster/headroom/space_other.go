//go:build !linux && !darwin

package headroom

import (
	"errors"
	"fmt"
)

// Space returns an error: this system does not report the free room.
func (System) Space() (Space, error) {
	return Space{}, fmt.Errorf("how much room is left on a disk: %w", errors.ErrUnsupported)
}
