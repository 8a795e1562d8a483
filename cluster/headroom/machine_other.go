//go:build !linux

package headroom

import (
	"errors"
	"fmt"
)

// Machine returns an error: this system does not report its memory.
func (System) Machine() (Machine, error) {
	return Machine{}, fmt.Errorf("how much memory is available: %w", errors.ErrUnsupported)
}
