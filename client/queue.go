package client

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"time"

	"github.com/belfryhq/belfry/internal/contract"
)

// Queue is how a queue's tasks are handled that say nothing themselves. Zero fields are the defaults.
type Queue struct {
	Name         string
	Target       *Target // nil: consumers pull
	Retry        *Retry
	MaxInFlight  int     // attempts and leases under way in the whole cluster; 0: no limit
	MaxPerSecond float64 // attempts begun and leases given; 0: no limit
	BatchMax     int     // tasks in one request; 0: one
	Paused       bool
	KeepDone     time.Duration // how long finished tasks can be read; 0: 10 minutes
	KeepDead     time.Duration // how long dead letters are kept; 0: until they are replayed or dropped

	// Secrets sign requests, the newest first, at most two: "whsec_" and base64. The service never shows them: it answers
	// "sha256:" and a few digits, which PutQueue may repeat to keep a secret.
	Secrets []string

	Counts *QueueCounts // set by the service when it is asked for a queue
}

// QueueCounts is what is in a queue.
type QueueCounts struct {
	Scheduled     uint64     `json:"scheduled"`
	Ready         uint64     `json:"ready"`
	Firing        uint64     `json:"firing"`
	Leased        uint64     `json:"leased"`
	Retrying      uint64     `json:"retrying"`
	Delivered     uint64     `json:"delivered"`
	Dead          uint64     `json:"dead"`
	Cancelled     uint64     `json:"cancelled"`
	OldestOverdue *time.Time `json:"oldest_overdue"` // nil: none waits
	Due1m         uint64     `json:"due_1m"`         // scheduled or retrying ones that come due within
	Due1h         uint64     `json:"due_1h"`
	Due1d         uint64     `json:"due_1d"`
}

// UnmarshalJSON reads a queue as the service writes it.
func (q *Queue) UnmarshalJSON(data []byte) error { return whole(data, q.read) }

// MarshalJSON writes a queue as the service does.
func (q Queue) MarshalJSON() ([]byte, error) { return contract.Close(appendQueue(nil, &q), 0), nil }

func queuePath(name string) string { return "/v1/queues/" + url.PathEscape(name) }

// PutQueue replaces the policy of the queue of this name whole, and returns it as it is kept. It is in force when the
// call returns, but for leaders that cannot be reached.
func (c *Client) PutQueue(ctx context.Context, queue Queue) (*Queue, error) {
	queue.Counts = nil
	body := contract.Close(appendQueue(nil, &queue), 0)
	return c.queueCall(ctx, call{method: http.MethodPut, path: queuePath(queue.Name), body: body, contentType: jsonType,
		header: c.header(&options{})})
}

// PatchQueue changes some of a queue's policy and returns all of it; a queue without one gets one. Patches of one queue
// that are made at the same time are all in force afterwards.
func (c *Client) PatchQueue(ctx context.Context, name string, patch QueuePatch) (*Queue, error) {
	fields, err := patch.fields()
	if err != nil {
		return nil, err
	}
	body, err := json.Marshal(fields)
	if err != nil {
		return nil, fmt.Errorf("queue %s: %w", name, err)
	}
	return c.queueCall(ctx, call{method: http.MethodPatch, path: queuePath(name), body: body, contentType: jsonType,
		header: c.header(&options{})})
}

// PauseQueue stops new attempts and leases of a queue, and returns its policy. Those under way go on.
func (c *Client) PauseQueue(ctx context.Context, name string) (*Queue, error) {
	return c.queueCall(ctx, call{method: http.MethodPost, path: queuePath(name) + "/pause", header: c.header(&options{})})
}

// ResumeQueue ends a queue's pause, and returns its policy.
func (c *Client) ResumeQueue(ctx context.Context, name string) (*Queue, error) {
	return c.queueCall(ctx, call{method: http.MethodPost, path: queuePath(name) + "/resume", header: c.header(&options{})})
}

// Queue reads a queue's policy and counts.
func (c *Client) Queue(ctx context.Context, name string) (*Queue, error) {
	return c.queueCall(ctx, call{method: http.MethodGet, path: queuePath(name)})
}

// DeleteQueue takes a queue's policy away; ErrConflict if it has tasks that are not finished.
func (c *Client) DeleteQueue(ctx context.Context, name string) error {
	_, err := c.queueCall(ctx, call{method: http.MethodDelete, path: queuePath(name), header: c.header(&options{})})
	return err
}

func (c *Client) queueCall(ctx context.Context, call call) (*Queue, error) {
	queue := new(Queue)
	if err := c.do(ctx, call, readAnswer(queue.read)); err != nil {
		return nil, err
	}
	return queue, nil
}

// Queues walks all queues that have a policy or a task, sorted by name. An error is the last thing it yields.
func (c *Client) Queues(ctx context.Context) iter.Seq2[*Queue, error] {
	return func(yield func(*Queue, error) bool) {
		query := url.Values{"limit": {"1000"}}
		for {
			var queues []Queue
			var next string
			call := call{method: http.MethodGet, path: "/v1/queues?" + query.Encode()}
			if err := c.do(ctx, call, readPage(contract.Queues, &queues, &next, (*Queue).read)); err != nil {
				yield(nil, err)
				return
			}
			for i := range queues {
				if !yield(&queues[i], nil) {
					return
				}
			}
			if next == "" {
				return
			}
			query.Set("cursor", next)
		}
	}
}

// QueuePatch is a change to a queue's policy. Zero fields are left as they are; Clear brings defaults back.
type QueuePatch struct {
	Target       *Target // its zero fields are left; headers are merged, and one with an empty value removed
	Retry        *Retry  // its zero fields are left
	MaxInFlight  int
	MaxPerSecond float64
	BatchMax     int
	Paused       *bool
	KeepDone     time.Duration
	KeepDead     time.Duration
	Secrets      []string // swapped whole
	// Clear names fields to set back, dotted where they are inside another: "target", "retry.max_attempts", "signing".
	Clear []string
}

// fields is the merge patch of RFC 7396.
func (p QueuePatch) fields() (map[string]any, error) {
	m := map[string]any{}
	if p.Target != nil {
		m["target"] = p.Target.patch()
	}
	if p.Retry != nil {
		m["retry"] = p.Retry.patch()
	}
	setNumber(m, "max_in_flight", p.MaxInFlight)
	setNumber(m, "max_per_second", p.MaxPerSecond)
	setNumber(m, "batch_max", p.BatchMax)
	if p.Paused != nil {
		m["paused"] = *p.Paused
	}
	setDuration(m, "keep_done", p.KeepDone)
	setDuration(m, "keep_dead", p.KeepDead)
	if p.Secrets != nil {
		m["signing"] = map[string]any{"secrets": p.Secrets}
	}
	return m, clearFields(m, p.Clear)
}
