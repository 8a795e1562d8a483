package task

import (
	"cmp"
	"time"

	"github.com/belfryhq/belfry/fsm/fsmpb"
)

// Attempt is one granted attempt, with everything that its delivery needs.
type Attempt struct {
	// Task is the task in its present state, with its payload. Attempts counts this attempt, Fence is that of this
	// grant, and FireAtMs is the due time. The target is set, to the queue's target if the task has none itself.
	Task    *fsmpb.Task
	Timeout time.Duration // of the whole attempt, connecting included
	// Secrets are the queue's signing keys, the newest first; nil means that the request is not signed.
	Secrets [][]byte
	// Traceparent is that of the attempt's own span; empty: the receiver gets the task's.
	Traceparent string
	// WantsStatus asks for the status of the receiver's answer, and KeepAnswer for its beginning, for a follow-up.
	WantsStatus, KeepAnswer bool
}

// Trace returns the traceparent for the receiver, or "".
func (a Attempt) Trace() string { return cmp.Or(a.Traceparent, a.Task.GetSpec().GetTraceparent()) }

// Outcome is the result of an attempt. The leader makes a settle of it.
type Outcome struct {
	Delivered  bool
	Permanent  bool          // no further attempt can help, as after a 410 or a refused address
	Refused    bool          // the receiver answered, and the fault is in this task: most 3xx and 4xx
	RetryAfter time.Duration // requested by the receiver; 0: none
	Error      string        // the text for last_error; empty if Delivered
	Status     int           // of the receiver's answer, if Attempt.WantsStatus asks for it; 0: none
	Answer     string        // its first MaxKeptAnswer bytes, if Attempt.KeepAnswer asks for them
}

// Reply answers one command, with its result or with the reason why it was not carried out.
type Reply struct {
	Result *fsmpb.Result // nil if Err is set
	Err    error         // one of the errors of this package, wrapped, or that of a context
}
