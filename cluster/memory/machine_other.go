//go:build !linux

package memory

import (
	"errors"
	"fmt"
)

// OfMachine returns an error: this system does not report its memory.
func OfMachine() (Machine, error) {
	return Machine{}, fmt.Errorf("how much memory is available: %w", errors.ErrUnsupported)
}
