package task

import (
	"time"

	"github.com/belfryhq/belfry/fsm/fsmpb"
)

// Attempt is one granted attempt, as it is handed to whatever delivers it.
type Attempt struct {
	// Task as it stands: with its payload, Attempts counting this one, Fence of this grant, FireAtMs its due time. Its
	// target is set, to the queue's if it has none itself.
	Task    *fsmpb.Task
	Timeout time.Duration // the whole attempt's, connecting included
	// Secrets are the queue's signing keys, the newest first; nil: nothing is signed.
	Secrets [][]byte
}

// Outcome is what an attempt came to. The leader makes a settle of it.
type Outcome struct {
	Delivered  bool
	Permanent  bool          // no further attempt can help: 410, or an address that is refused
	RetryAfter time.Duration // the receiver's wish; 0: none
	Error      string        // what went wrong, for last_error; empty if Delivered
}

// Reply answers one command: either what it did, or why it could not be carried out.
type Reply struct {
	Result *fsmpb.Result // nil if Err is set
	Err    error         // one of the errors of this package, wrapped, or a context's
}
