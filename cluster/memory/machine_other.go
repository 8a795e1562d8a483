//go:build !linux

package memory

import (
	"errors"
	"fmt"
)

// OfMachine cannot tell on this system.
func OfMachine() (Machine, error) {
	return Machine{}, fmt.Errorf("how much memory is available: %w", errors.ErrUnsupported)
}
