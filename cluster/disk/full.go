package disk

import (
	"errors"
	"syscall"
)

// IsFull reports whether an error means that a disk, or its user's quota, is used up.
func IsFull(err error) bool { return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) }
