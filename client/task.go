package client

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/belfryhq/belfry/client/view"
	"github.com/belfryhq/belfry/internal/contract"
)

// State is a state of a task.
type State = view.TaskState

// The states of a task. The last three are tombstones.
const (
	StateScheduled State = "scheduled" // waits for its time
	StateReady     State = "ready"     // due, and no attempt has begun
	StateFiring    State = "firing"    // an attempt is granted
	StateRetrying  State = "retrying"  // between attempts
	StateDelivered State = "delivered"
	StateDead      State = "dead"
	StateCancelled State = "cancelled"
)

// Outcome is the final result of a cancel.
type Outcome string

// The outcomes of a cancel.
const (
	OutcomeCancelled    Outcome = "cancelled"     // no attempt was begun, and none will be
	OutcomeStopped      Outcome = "stopped"       // an attempt was begun and may have been delivered; no other will be
	OutcomeAlreadyFired Outcome = "already_fired" // the task was delivered or dead already
)

// Task is a task, in requests and in answers. Requests do not send the fields that the service sets.
type Task struct {
	ID    string // empty in Schedule: a new one is made
	Queue string // empty: "default"

	// FireAt is the due time, rounded up to whole milliseconds. If FireAt is zero, the task is due Delay after the call's
	// receipt.
	FireAt time.Time
	Delay  time.Duration

	Payload      json.RawMessage // any JSON, delivered byte for byte; see Batch for the one exception
	PayloadBytes []byte          // in place of Payload: any bytes
	ContentType  string          // empty: application/json

	Target       *Target // nil: the queue's
	Retry        *Retry  // nil: the queue's
	ExpiresAfter time.Duration
	Labels       map[string]string
	Window       *Window // in which attempts may begin; nil: the queue's

	// Group is what the task belongs to, such as a customer. The queue may limit the attempts of each group, or keep the
	// order of their due times.
	Group    string
	Priority int // 1 to 5, the first first; 0: 3

	// Jitter spreads tasks with the same due time: the task is due up to Jitter later, by a part that depends on its id
	// only. Jitter is not stored: an answer has the resulting FireAt.
	Jitter time.Duration

	// The service sets the fields below.
	State         State
	Attempts      int       // begun so far
	NextAttemptAt time.Time // zero: none is scheduled
	WaitsFor      string    // "window": the task is due, and waits until NextAttemptAt for its window to open
	LastError     string
	Revision      uint64
	Shard         uint32
	CreatedAt     time.Time
	WebhookID     string    // the webhook-id of all attempts of this occurrence
	Outcome       Outcome   // of a cancelled task
	Previous      State     // in Schedule's answer: the replaced task's state; empty: there was none
	History       []Past    // the last few ended attempts, oldest first
	LeaseEndsAt   time.Time // zero: not leased
	Schedule      string    // id of the schedule of which the task is an occurrence; empty: none
	Occurrence    uint64    // number of the occurrence; 0: the task is none
	Scheduled     time.Time // instant that the rule names for the occurrence; a jitter or a backfill changes FireAt
}

// Target is the receiver of a task.
type Target struct {
	URL     string
	Headers map[string]string
	Timeout time.Duration // of one attempt; 0: the queue's
}

// Retry sets the number and the pauses of a task's attempts. A zero field takes the queue's value.
type Retry struct {
	MaxAttempts int
	MinBackoff  time.Duration
	MaxBackoff  time.Duration
	// Delays are the pauses after the first, second, … failed attempt, in place of a backoff. With MaxAttempts 0 there
	// is one attempt more than delays. With more attempts the last delay repeats.
	Delays []time.Duration
}

// IsZero reports whether r sets nothing.
func (r Retry) IsZero() bool {
	return r.MaxAttempts == 0 && r.MinBackoff == 0 && r.MaxBackoff == 0 && len(r.Delays) == 0
}

// Past is an ended attempt.
type Past struct {
	Attempt   int       `json:"attempt"`
	Fence     uint64    `json:"fence"`
	StartedAt time.Time `json:"started_at"` // zero: unknown
	EndedAt   time.Time `json:"ended_at"`   // zero: unknown
	Node      string    `json:"node"`       // the node that made it; empty: a consumer's attempt, or unknown
	Error     string    `json:"error"`      // empty: delivered
}

// UnmarshalJSON reads a task as the service writes it.
func (t *Task) UnmarshalJSON(data []byte) error { return unlessNull(data, t.read) }

// MarshalJSON writes a task as the service does, with the fields that the service sets.
func (t Task) MarshalJSON() ([]byte, error) {
	b, err := appendTask(contract.AppendTextIf(nil, contract.ID, t.ID), &t)
	if err != nil {
		return nil, err
	}
	return contract.Close(appendAnswer(b, &t), 0), nil
}

// unlessNull reads a text with read. A null leaves the value unchanged.
func unlessNull(data []byte, read func(*contract.Reader) error) error {
	if string(data) == "null" {
		return nil
	}
	return whole(data, read)
}

// ParseDuration reads a duration as the service does: in Go's format with d for days of 24 hours ("7d", "1.5d",
// "1d12h"), or in the format of ISO 8601 ("PT30M", "P2D", "P1W"; no years and no months). It rounds parts finer than a
// nanosecond up. A duration that overflows time.Duration becomes the longest possible one, which the service refuses by
// its limit.
func ParseDuration(text string) (time.Duration, error) {
	d, err := contract.ParseDuration(text)
	if err != nil {
		return 0, fmt.Errorf("%q %w", text, err)
	}
	return d, nil
}

// ParseInstant reads an instant as the service does: RFC 3339 with any offset, rounded up to whole milliseconds.
func ParseInstant(text string) (time.Time, error) {
	ms, err := contract.ParseInstant(text)
	if err != nil {
		return time.Time{}, fmt.Errorf("%q %w", text, err)
	}
	return time.UnixMilli(ms).UTC(), nil
}
