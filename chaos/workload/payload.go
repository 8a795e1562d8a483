package workload

import (
	"encoding/json"
)

// payload is what a task carries.
type payload struct {
	Op   int64 `json:"op"`             // that wrote it
	Fail int   `json:"fail,omitempty"` // that many attempts are to be failed by the receiver
	Hold int   `json:"hold,omitempty"` // milliseconds for which the receiver keeps the answer back
}

// forever is more attempts than any task of a workload has.
const forever = 1000

func (p payload) encode() json.RawMessage {
	data, err := json.Marshal(p)
	if err != nil {
		panic(err) // two integers
	}
	return data
}

// decode reads a body. One that is no payload names no operation.
func decode(body []byte) payload {
	var p payload
	if json.Unmarshal(body, &p) != nil {
		return payload{}
	}
	return p
}
