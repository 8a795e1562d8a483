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

// Queue is the policy of a queue, for tasks without settings of their own. Zero fields are the defaults.
type Queue struct {
	Name         string
	Target       *Target // nil: consumers pull
	Retry        *Retry
	MaxInFlight  int     // attempts and leases in progress in the whole cluster; 0: no limit
	MaxPerSecond float64 // attempts begun and tasks leased; 0: no limit
	BatchMax     int     // tasks in one request; 0: one
	Paused       bool
	KeepDone     time.Duration // how long finished tasks can be read; 0: 10 minutes
	KeepDead     time.Duration // how long dead letters are kept; 0: until they are replayed or dropped
	Window       *Window       // in which attempts and leases begin; nil: at any time
	// OnDelivered and OnDead follow the tasks without follow-ups of their own. Their targets have no credentials.
	OnDelivered, OnDead *FollowUp

	GroupInFlight  int            // attempts and leases of one group under way in the whole cluster; 0: no limit
	GroupPerSecond float64        // attempts and leases of one group that begin in the whole cluster; 0: no limit
	FIFO           bool           // one task of a group at a time, in the order of due times
	Fair           bool           // groups take turns by weight
	GroupWeights   map[string]int // of a fair queue, 1 to 100; other groups have the weight 1

	// Secrets sign requests, the newest first, at most two: "whsec_" and base64. The service never shows them. It answers
	// "sha256:" and a few digits, which PutQueue accepts to keep a secret.
	Secrets []string

	// The service sets the fields below in answers.
	Counts        *QueueCounts
	WindowOpen    bool      // of a queue with a window
	WindowOpensAt time.Time // of a closed window; zero: it does not open within ten years
	Broken        []BrokenReceiver
}

// BrokenReceiver is a receiver of a queue that has failed 32 times in a row. It gets one attempt at a time until it
// succeeds.
type BrokenReceiver struct {
	Receiver  string    `json:"receiver"` // scheme, host and port; empty: the queue's own target
	Path      string    `json:"path"`     // empty: all paths of the receiver that are not named
	Since     time.Time `json:"since"`
	LastError string    `json:"last_error"`
	Waiting   uint64    `json:"waiting"` // due tasks
}

// QueueCounts is the number of a queue's tasks by state and due time.
type QueueCounts struct {
	Scheduled     uint64     `json:"scheduled"`
	Ready         uint64     `json:"ready"`
	Firing        uint64     `json:"firing"`
	Leased        uint64     `json:"leased"`
	Retrying      uint64     `json:"retrying"`
	Delivered     uint64     `json:"delivered"`
	Dead          uint64     `json:"dead"`
	Cancelled     uint64     `json:"cancelled"`
	OldestOverdue *time.Time `json:"oldest_overdue"` // nil: no task is overdue
	Due1m         uint64     `json:"due_1m"`         // scheduled or retrying tasks that come due within this time
	Due1h         uint64     `json:"due_1h"`
	Due1d         uint64     `json:"due_1d"`
}

// Unfinished returns the number of tasks that are neither delivered, cancelled nor dead; 0 for nil.
func (c *QueueCounts) Unfinished() uint64 {
	if c == nil {
		return 0
	}
	return c.Scheduled + c.Ready + c.Firing + c.Leased + c.Retrying
}

func (q *Queue) members() []member {
	return []member{
		{contract.Queue, &q.Name, 0}, {contract.Target, &q.Target, rare}, {contract.Retry, &q.Retry, rare},
		{contract.MaxInFlight, &q.MaxInFlight, 0}, {contract.MaxPerSecond, &q.MaxPerSecond, 0},
		{contract.BatchMax, &q.BatchMax, 0}, {contract.GroupInFlight, &q.GroupInFlight, 0},
		{contract.GroupPerSecond, &q.GroupPerSecond, 0}, {contract.FIFO, &q.FIFO, 0},
		{contract.Fair, &q.Fair, 0}, {contract.GroupWeights, &q.GroupWeights, 0}, {contract.Paused, &q.Paused, always},
		{contract.KeepDone, &q.KeepDone, 0}, {contract.KeepDead, &q.KeepDead, 0},
		{contract.Signing, (*secretList)(&q.Secrets), 0}, {contract.Window, &q.Window, 0},
		{contract.OnDelivered, &q.OnDelivered, 0}, {contract.OnDead, &q.OnDead, 0},
		{contract.WindowOpen, &q.WindowOpen, silent}, {contract.WindowOpensAt, &q.WindowOpensAt, silent},
		{contract.Counts, &q.Counts, 0}, {contract.Broken, &q.Broken, 0},
	}
}

func (b *BrokenReceiver) members() []member {
	return []member{
		{contract.Receiver, &b.Receiver, always}, {contract.Path, &b.Path, always}, {contract.Since, &b.Since, always},
		{contract.LastError, &b.LastError, always}, {contract.Waiting, &b.Waiting, always},
	}
}

func (c *QueueCounts) members() []member {
	return []member{
		{contract.Scheduled, &c.Scheduled, always}, {contract.Ready, &c.Ready, always},
		{contract.Firing, &c.Firing, always}, {contract.Leased, &c.Leased, always},
		{contract.Retrying, &c.Retrying, always}, {contract.Delivered, &c.Delivered, always},
		{contract.Dead, &c.Dead, always}, {contract.Cancelled, &c.Cancelled, always}, {contract.Due1m, &c.Due1m, always},
		{contract.Due1h, &c.Due1h, always}, {contract.Due1d, &c.Due1d, always},
		{contract.OldestOverdue, &c.OldestOverdue, always},
	}
}

// secretList is the secrets of a queue, which are in an object of their own.
type secretList []string

func (q *Queue) read(r *contract.Reader) error {
	*q = Queue{}
	return readObject(r, "queue", q.members())
}

// UnmarshalJSON reads a queue as the service writes it.
func (q *Queue) UnmarshalJSON(data []byte) error { return whole(data, q.read) }

// MarshalJSON writes a queue as the service does.
func (q Queue) MarshalJSON() ([]byte, error) {
	b, err := appendMembers(nil, q.members(), false)
	return contract.Close(b, 0), err
}

// PutQueue replaces the whole policy of the queue with this name, and returns the stored policy. The policy is in force
// when the call returns, except at leaders that cannot be reached.
func (c *Client) PutQueue(ctx context.Context, queue Queue) (*Queue, error) {
	queue.Counts = nil
	body, err := queue.MarshalJSON()
	if err != nil {
		return nil, fmt.Errorf("queue %s: %w", queue.Name, err)
	}
	return read[Queue](ctx, c.conn, call{method: http.MethodPut, path: c.conn.path("queues", queue.Name), body: body,
		contentType: jsonType, header: c.conn.header(&options{})})
}

// PatchQueue changes a part of a queue's policy and returns the whole policy. A queue without a policy gets one.
// Simultaneous patches of one queue all take effect.
func (c *Client) PatchQueue(ctx context.Context, name string, patch QueuePatch) (*Queue, error) {
	fields, err := patch.fields()
	if err != nil {
		return nil, err
	}
	body, err := json.Marshal(fields)
	if err != nil {
		return nil, fmt.Errorf("queue %s: %w", name, err)
	}
	return read[Queue](ctx, c.conn, call{method: http.MethodPatch, path: c.conn.path("queues", name), body: body,
		contentType: jsonType, header: c.conn.header(&options{})})
}

// PauseQueue stops new attempts and leases of a queue, and returns its policy. Attempts and leases in progress
// continue.
func (c *Client) PauseQueue(ctx context.Context, name string) (*Queue, error) {
	return read[Queue](ctx, c.conn, call{method: http.MethodPost, path: c.conn.path("queues", name) + "/pause",
		header: c.conn.header(&options{})})
}

// ResumeQueue ends a queue's pause, and returns its policy.
func (c *Client) ResumeQueue(ctx context.Context, name string) (*Queue, error) {
	return read[Queue](ctx, c.conn, call{method: http.MethodPost, path: c.conn.path("queues", name) + "/resume",
		header: c.conn.header(&options{})})
}

// Queue reads a queue's policy and counts.
func (c *Client) Queue(ctx context.Context, name string) (*Queue, error) {
	return read[Queue](ctx, c.conn, call{method: http.MethodGet, path: c.conn.path("queues", name)})
}

// DeleteQueue deletes a queue's policy. It returns ErrConflict if the queue has unfinished tasks.
func (c *Client) DeleteQueue(ctx context.Context, name string) error {
	_, err := read[Queue](ctx, c.conn, call{method: http.MethodDelete, path: c.conn.path("queues", name),
		header: c.conn.header(&options{})})
	return err
}

// Queues returns all queues that have a policy or a task, sorted by name. An error ends the sequence.
func (c *Client) Queues(ctx context.Context) iter.Seq2[*Queue, error] {
	return func(yield func(*Queue, error) bool) {
		query := url.Values{"limit": {"1000"}}
		for {
			var queues []Queue
			var next string
			call := call{method: http.MethodGet, path: c.conn.root + "/queues?" + query.Encode()}
			if err := c.conn.do(ctx, call, readPage(contract.Queues, &queues, &next, (*Queue).read)); err != nil {
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

// QueuePatch is a change to a queue's policy. Zero fields leave the policy's unchanged; Clear restores defaults.
type QueuePatch struct {
	Target       *Target // zero fields leave the queue's; headers are merged, and an empty value removes one
	Retry        *Retry  // zero fields leave the queue's
	MaxInFlight  int
	MaxPerSecond float64
	BatchMax     int
	Paused       *bool
	KeepDone     time.Duration
	KeepDead     time.Duration
	Window       *Window // replaces the whole window
	OnDelivered  *FollowUp
	OnDead       *FollowUp
	Secrets      []string // replace the whole list

	GroupInFlight  int
	GroupPerSecond float64
	FIFO, Fair     *bool
	GroupWeights   map[string]int // merged; 0 removes a weight

	// Clear names fields to reset, with a dot for a field of an object: "target", "retry.max_attempts", "signing".
	Clear []string
}

// fields returns the merge patch of RFC 7396.
func (p QueuePatch) fields() (map[string]any, error) {
	q := Queue{
		Target: p.Target, Retry: p.Retry, MaxInFlight: p.MaxInFlight, MaxPerSecond: p.MaxPerSecond, BatchMax: p.BatchMax,
		KeepDone: p.KeepDone, KeepDead: p.KeepDead, Window: p.Window, GroupInFlight: p.GroupInFlight,
		GroupPerSecond: p.GroupPerSecond, GroupWeights: p.GroupWeights, OnDelivered: p.OnDelivered, OnDead: p.OnDead,
	}
	m, err := mergePatch(q.members())
	if err != nil {
		return nil, err
	}
	for name, on := range map[string]*bool{"paused": p.Paused, "fifo": p.FIFO, "fair": p.Fair} {
		if on != nil {
			m[name] = *on
		}
	}
	if p.Secrets != nil {
		m["signing"] = map[string]any{"secrets": p.Secrets}
	}
	return m, clearFields(m, p.Clear)
}
