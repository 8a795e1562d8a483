//go:build !linux && !darwin

package disk

import (
	"errors"
	"fmt"
)

// Of cannot tell on this system.
func Of(string) (Space, error) {
	return Space{}, fmt.Errorf("how much room is left on a disk: %w", errors.ErrUnsupported)
}
