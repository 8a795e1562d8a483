package client

import (
	"context"
	"net/http"
	"time"

	"github.com/belfryhq/belfry/internal/contract"
)

// Demand describes a lease call. Zero fields are the service's defaults.
type Demand struct {
	Max   int           // number of tasks, at most 1000; 0: one
	Wait  time.Duration // how long to wait for the first one, at most a minute; 0: not at all
	Lease time.Duration // length of the leases, 100 ms to 12 h; 0: 30 s
}

// Leased is a task that is leased to a consumer until LeaseEndsAt.
type Leased struct {
	Task
	Receipt string // identifies this lease in Settle
	Attempt int    // 1, 2, …
	Fence   uint64 // rises with every grant of the task
}

// UnmarshalJSON reads a leased task as the service writes it.
func (l *Leased) UnmarshalJSON(data []byte) error { return unlessNull(data, l.read) }

// MarshalJSON writes a leased task as the service does.
func (l Leased) MarshalJSON() ([]byte, error) {
	b, err := l.Task.MarshalJSON()
	if err != nil {
		return nil, err
	}
	b = contract.AppendText(b[:len(b)-1], contract.Receipt, l.Receipt)
	b = contract.AppendInt(b, contract.Attempt, int64(l.Attempt))
	return append(contract.AppendUint(b, contract.Fence, l.Fence), '}'), nil
}

// Lease takes due tasks of a queue that is pulled. It returns as soon as there is at least one task, or none when the
// wait ends. The tasks of a lost answer return to the queue when their leases end.
func (c *Client) Lease(ctx context.Context, queue string, demand Demand) ([]Leased, error) {
	body := appendInt(nil, contract.Max, demand.Max)
	body = contract.AppendSpan(body, contract.Wait, demand.Wait)
	body = contract.Close(contract.AppendSpan(body, contract.Lease, demand.Lease), 0)
	var tasks []Leased
	// The call has no key, as in Settle: net/http might send a call with a key twice, and it would lease twice.
	call := call{method: http.MethodPost, path: queuePath(queue) + "/lease", body: body, contentType: jsonType,
		wait: demand.Wait}
	err := c.do(ctx, call, readAnswer(func(r *contract.Reader) error {
		return readObject(r, "lease", []member{{contract.Tasks, func() error {
			return readList(r, "tasks", &tasks, func(l *Leased) error { return l.read(r) })
		}}})
	}))
	return tasks, err
}
