package client

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
)

// Option changes one call.
type Option func(*options)

type options struct {
	key         string
	ifMatch     string
	ifNoneMatch string
}

// WithKey sets the call's idempotency key, 1 to 255 bytes. A program that stores the key before it calls can repeat
// the call safely even after it was started anew. Without it each call gets a random key.
func WithKey(key string) Option { return func(o *options) { o.key = key } }

// IfRevision makes the call only if the task still has this revision; else ErrPrecondition.
func IfRevision(revision uint64) Option {
	return func(o *options) { o.ifMatch = strconv.FormatUint(revision, 10) }
}

// IfAbsent makes the call only if there is no such task, tombstones included; else ErrPrecondition.
func IfAbsent() Option { return func(o *options) { o.ifNoneMatch = "*" } }

func gather(opts []Option) options {
	var o options
	for _, opt := range opts {
		opt(&o)
	}
	if o.key == "" {
		o.key = newKey()
	}
	return o
}

func (o options) header() http.Header {
	h := http.Header{"Idempotency-Key": {o.key}}
	if o.ifMatch != "" {
		h.Set("If-Match", strconv.Quote(o.ifMatch))
	}
	if o.ifNoneMatch != "" {
		h.Set("If-None-Match", o.ifNoneMatch)
	}
	return h
}

const jsonType = "application/json"

func taskPath(id string) string { return "/v1/tasks/" + url.PathEscape(id) }

// Schedule stores the task, or atomically replaces the one of the same ID in whatever state it is, and returns it as
// it is kept. Without an ID the service makes one.
func (c *Client) Schedule(ctx context.Context, task Task, opts ...Option) (*Task, error) {
	method, path := http.MethodPut, taskPath(task.ID)
	if task.ID == "" {
		method, path = http.MethodPost, "/v1/tasks"
	}
	w := newWireTask(task)
	w.ID = "" // the path says it
	return c.change(ctx, method, path, w, task.Payload, opts)
}

// Cancel ends the task and says, for good, what that came to.
func (c *Client) Cancel(ctx context.Context, id string, opts ...Option) (Outcome, error) {
	var answer struct {
		Outcome Outcome `json:"outcome"`
	}
	call := call{method: http.MethodDelete, path: taskPath(id), header: gather(opts).header()}
	err := c.do(ctx, call, readJSON(&answer))
	return answer.Outcome, err
}

// FireNow makes the task due now; one that waits for its next attempt is attempted now.
func (c *Client) FireNow(ctx context.Context, id string, opts ...Option) (*Task, error) {
	return c.change(ctx, http.MethodPost, taskPath(id)+"/fire", struct{}{}, nil, opts)
}

// Touch starts the task's delay again, counted from now.
func (c *Client) Touch(ctx context.Context, id string, touch Touch, opts ...Option) (*Task, error) {
	body, err := touch.encode()
	if err != nil {
		return nil, fmt.Errorf("touch: %w", err)
	}
	return c.change(ctx, http.MethodPost, taskPath(id)+"/touch", body, nil, opts)
}

// Patch changes a task of which no attempt has begun; else ErrConflict.
func (c *Client) Patch(ctx context.Context, id string, patch Patch, opts ...Option) (*Task, error) {
	fields, err := patch.fields()
	if err != nil {
		return nil, err
	}
	return c.change(ctx, http.MethodPatch, taskPath(id), fields, patch.Payload, opts)
}

// change makes a changing call that answers with the task.
func (c *Client) change(
	ctx context.Context, method, path string, body any, payload json.RawMessage, opts []Option,
) (*Task, error) {
	data, err := encode(body, payload)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", method, path, err)
	}
	task := new(Task)
	call := call{method: method, path: path, body: data, contentType: jsonType, header: gather(opts).header()}
	if err := c.do(ctx, call, readJSON(task)); err != nil {
		return nil, err
	}
	return task, nil
}

// Get reads a task, with its payload; tombstones too. It sees every change acknowledged before it was called.
func (c *Client) Get(ctx context.Context, id string) (*Task, error) { return c.get(ctx, taskPath(id)) }

// GetStale reads a task from the nearest replica, which may be a little behind. It needs no leader.
func (c *Client) GetStale(ctx context.Context, id string) (*Task, error) {
	return c.get(ctx, taskPath(id)+"?consistency=stale")
}

func (c *Client) get(ctx context.Context, path string) (*Task, error) {
	task := new(Task)
	if err := c.do(ctx, call{method: http.MethodGet, path: path}, readJSON(task)); err != nil {
		return nil, err
	}
	return task, nil
}

// Ready asks one of the addresses whether it serves: it knows the map, and its replicas have caught up once.
func (c *Client) Ready(ctx context.Context) error {
	return c.do(ctx, call{method: http.MethodGet, path: "/readyz"}, func(io.Reader) error { return nil })
}
