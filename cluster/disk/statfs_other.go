//go:build !linux && !darwin

package disk

import (
	"errors"
	"fmt"
)

// Of returns an error: this system does not report the free room.
func Of(string) (Space, error) {
	return Space{}, fmt.Errorf("how much room is left on a disk: %w", errors.ErrUnsupported)
}
