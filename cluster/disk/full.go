package disk

import (
	"errors"
	"syscall"
)

// IsFull reports whether an error says that a disk, or what its user may have of it, is used up.
func IsFull(err error) bool { return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) }
