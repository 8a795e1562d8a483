package client

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"
)

// Demand is what a consumer asks for. Zero fields are the service's defaults.
type Demand struct {
	Max   int           // tasks, at most 1000; 0: one
	Wait  time.Duration // how long to wait for the first one, at most a minute; 0: not at all
	Lease time.Duration // how long the tasks are the consumer's, 100 ms to 12 h; 0: 30 s
}

// Leased is a task that a consumer has until LeaseEndsAt.
type Leased struct {
	Task
	Receipt string // names this lease in Settle
	Attempt int    // 1, 2, …
	Fence   uint64 // rises with every grant of the task
}

type wireLease struct {
	Receipt string `json:"receipt"`
	Attempt int    `json:"attempt"`
	Fence   uint64 `json:"fence"`
}

// UnmarshalJSON reads a leased task as the service writes it.
func (l *Leased) UnmarshalJSON(data []byte) error {
	if isNull(data) {
		return nil
	}
	*l = Leased{}
	return whole(decodeLeased(data, l))
}

// MarshalJSON writes a leased task as the service does.
func (l Leased) MarshalJSON() ([]byte, error) {
	task, err := l.Task.MarshalJSON()
	if err != nil {
		return nil, err
	}
	lease, err := json.Marshal(wireLease{l.Receipt, l.Attempt, l.Fence})
	if err != nil {
		return nil, err
	}
	task[len(task)-1] = ','
	return append(task, lease[1:]...), nil
}

// Lease takes due tasks of a queue that is pulled. It returns as soon as there is one, with what came along; none when
// the wait ends. Tasks of an answer that was lost come back to the queue when their leases end.
func (c *Client) Lease(ctx context.Context, queue string, demand Demand) ([]Leased, error) {
	body, err := json.Marshal(struct {
		Max   int      `json:"max,omitempty"`
		Wait  duration `json:"wait,omitzero"`
		Lease duration `json:"lease,omitzero"`
	}{demand.Max, duration(demand.Wait), duration(demand.Lease)})
	if err != nil {
		return nil, fmt.Errorf("lease %s: %w", queue, err)
	}
	var answer struct{ Tasks []Leased }
	// Without a key, as in Settle: a call that net/http sent twice would lease twice.
	call := call{method: http.MethodPost, path: queuePath(queue) + "/lease", body: body, contentType: jsonType,
		wait: demand.Wait}
	if err := c.do(ctx, call, readJSON(&answer)); err != nil {
		return nil, err
	}
	return answer.Tasks, nil
}
