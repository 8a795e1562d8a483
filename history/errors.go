package history

import (
	"errors"
	"fmt"
	"time"
)

var (
	// ErrGone is returned for events that the limits have removed. The error is a *GoneError.
	ErrGone = errors.New("history: the events are gone")
	// ErrClosed is returned after Close, and for a shard after Drop.
	ErrClosed = errors.New("history: closed")
	// ErrNoShard is returned by a read of a shard that has no replica on the node.
	ErrNoShard = errors.New("history: the node has no replica of the shard")
)

// GoneError says which events of a namespace are left in a shard.
type GoneError struct {
	After Position  // a read after this position finds the oldest events that are left
	Since time.Time // all events before or at this instant may be gone
}

func (e *GoneError) Error() string {
	return fmt.Sprintf("%v: those up to %v, of %s", ErrGone, e.After, e.Since.UTC().Format(time.RFC3339Nano))
}

// Is makes the error match ErrGone.
func (e *GoneError) Is(target error) bool { return target == ErrGone }
