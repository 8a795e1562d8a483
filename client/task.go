package client

import (
	"encoding/json"
	"time"

	"github.com/belfryhq/belfry/internal/contract"
)

// State is where a task is in its life.
type State string

// The states of a task. The last three are tombstones.
const (
	Scheduled State = "scheduled" // waits for its time
	Ready     State = "ready"     // due, and no attempt has begun
	Firing    State = "firing"    // an attempt is granted
	Retrying  State = "retrying"  // between attempts
	Delivered State = "delivered"
	Dead      State = "dead"
	Cancelled State = "cancelled"
)

// Outcome is the final answer to a cancel.
type Outcome string

// The outcomes of a cancel.
const (
	OutcomeCancelled    Outcome = "cancelled"     // no attempt was ever begun, and none will be
	OutcomeStopped      Outcome = "stopped"       // one was begun and may have been delivered; no further one will be
	OutcomeAlreadyFired Outcome = "already_fired" // it was delivered or dead before
)

// Task is a task, as it is scheduled and as it is read. What the service sets is not sent in requests.
type Task struct {
	ID    string // empty in Schedule: the service makes one
	Queue string // empty: "default"

	// FireAt is when it is due; kept in whole milliseconds, rounded up. If zero, Delay counts from receipt.
	FireAt time.Time
	Delay  time.Duration

	Payload      json.RawMessage // any JSON, delivered byte for byte; see Batch for the one exception
	PayloadBytes []byte          // in place of Payload: any bytes
	ContentType  string          // empty: application/json

	Target       *Target // nil: the queue's
	Retry        *Retry  // nil: the queue's
	ExpiresAfter time.Duration
	Labels       map[string]string

	// Jitter spreads tasks of one instant: this one is due up to so much later, by a part that only its id decides. It is
	// not kept: the task that comes back has the instant it came to.
	Jitter time.Duration

	// Set by the service.
	State         State
	Attempts      int       // begun so far
	NextAttemptAt time.Time // zero: none is set
	LastError     string
	Revision      uint64
	Shard         uint32
	CreatedAt     time.Time
	WebhookID     string    // what all attempts of this occurrence carry as webhook-id
	Outcome       Outcome   // of a cancelled task
	Previous      State     // in Schedule's answer: the state of the task that it replaced; empty: there was none
	History       []Past    // the last few attempts that ended, oldest first
	LeaseEndsAt   time.Time // zero: no consumer has it
}

// Target is where a task is delivered.
type Target struct {
	URL     string
	Headers map[string]string
	Timeout time.Duration // of one attempt; 0: the queue's
}

// Retry says how often and how soon a task is attempted; a zero field is the queue's.
type Retry struct {
	MaxAttempts int
	MinBackoff  time.Duration
	MaxBackoff  time.Duration
	// Delays are how long to wait after the first, second, … failed attempt, in place of a backoff. With MaxAttempts 0
	// there is one attempt more than delays; with more attempts than that the last delay repeats.
	Delays []time.Duration
}

// IsZero reports whether r says nothing.
func (r Retry) IsZero() bool {
	return r.MaxAttempts == 0 && r.MinBackoff == 0 && r.MaxBackoff == 0 && len(r.Delays) == 0
}

// Past is an attempt that has ended.
type Past struct {
	Attempt   int       `json:"attempt"`
	Fence     uint64    `json:"fence"`
	StartedAt time.Time `json:"started_at"` // zero: not known
	EndedAt   time.Time `json:"ended_at"`   // zero: not known
	Node      string    `json:"node"`       // that made it; empty: a consumer's, or not known
	Error     string    `json:"error"`      // empty: it was delivered
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

// unlessNull reads a text, but a null, which leaves the value as it is.
func unlessNull(data []byte, read func(*contract.Reader) error) error {
	if string(data) == "null" {
		return nil
	}
	return whole(data, read)
}
