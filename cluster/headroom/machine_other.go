//go:build !linux

package headroom

import (
	"errors"
	"fmt"
)

// MachineMemory returns an error: this system does not report its memory.
func MachineMemory() (Machine, error) {
	return Machine{}, fmt.Errorf("how much memory is available: %w", errors.ErrUnsupported)
}
