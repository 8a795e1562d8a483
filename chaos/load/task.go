package load

import (
	"encoding/json"
	"time"
)

// Task is the task of a schedule, without its id and payload.
type Task struct {
	FireAt      time.Time
	Delay       time.Duration // until it is due, if FireAt is zero
	Queue       string        // empty: the task has the receiver as its own target
	Group       string        // of an ordered queue; empty: none
	Fail        int           // number of first attempts that the receiver or the consumer fails
	Hold        time.Duration // how long the receiver or the consumer holds its answer back
	Gone        bool          // the receiver refuses further attempts
	MaxAttempts int           // 0: the queue's, or the service's default
	Expires     time.Duration // time after which no attempt begins; 0: never
	IfAbsent    bool
	IfRevision  uint64 // 0: any
}

// Payload is the payload of a task. It carries orders for the receiver or the consumer.
type Payload struct {
	Op   int64 `json:"op"`             // the operation that wrote the payload
	Fail int   `json:"fail,omitempty"` // number of first attempts to fail
	Hold int64 `json:"hold,omitempty"` // milliseconds to hold the answer back
	Gone bool  `json:"gone,omitempty"` // refuse further attempts
}

// Forever is more attempts than any task of a load has.
const Forever = 1000

// Encode returns the payload as the body of a task.
func (p Payload) Encode() json.RawMessage {
	data, err := json.Marshal(p)
	if err != nil {
		panic(err) // plain fields always encode
	}
	return data
}

// Decode reads the body of a task. It returns a zero payload for a body of another form.
func Decode(body []byte) Payload {
	var p Payload
	if json.Unmarshal(body, &p) != nil {
		return Payload{}
	}
	return p
}

// HoldFor returns how long to hold the answer back.
func (p Payload) HoldFor() time.Duration { return time.Duration(p.Hold) * time.Millisecond }
