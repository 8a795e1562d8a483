package load

import (
	"encoding/json"
	"time"
)

// Task is the task that a schedule asks for, besides its id and its payload.
type Task struct {
	FireAt      time.Time
	Delay       time.Duration // in place of FireAt
	Queue       string        // empty: it goes to the receiver by a target of its own
	Fail        int           // attempts that the receiver or the consumer fails
	Hold        time.Duration // for which they keep their answer back
	Gone        bool          // the receiver wants no further attempt
	MaxAttempts int           // 0: the queue's, or the service's default
	Expires     time.Duration // after which no attempt begins; 0: never
	IfAbsent    bool
	IfRevision  uint64 // 0: whatever it is
}

// Payload is the payload of a task.
type Payload struct {
	Op   int64 `json:"op"`             // that wrote it
	Fail int   `json:"fail,omitempty"` // attempts that are to be failed
	Hold int64 `json:"hold,omitempty"` // milliseconds for which the answer is to be kept back
	Gone bool  `json:"gone,omitempty"` // the answer is to be that no further attempt is wanted
}

// Forever is more attempts than any task of a load has.
const Forever = 1000

// Encode returns the payload as a task carries it.
func (p Payload) Encode() json.RawMessage {
	data, err := json.Marshal(p)
	if err != nil {
		panic(err) // numbers
	}
	return data
}

// Decode reads a body. One that is no payload names no operation.
func Decode(body []byte) Payload {
	var p Payload
	if json.Unmarshal(body, &p) != nil {
		return Payload{}
	}
	return p
}

// HoldFor returns for how long the answer is to be kept back.
func (p Payload) HoldFor() time.Duration { return time.Duration(p.Hold) * time.Millisecond }
