package client

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"time"
)

// Namespace is a part of the cluster with ids, queues and quotas of its own.
type Namespace struct {
	Name string `json:"name"`
	Quotas
	State     string    `json:"state,omitempty"` // active or deleting
	CreatedAt time.Time `json:"created_at,omitzero"`
	Used      *Usage    `json:"used,omitempty"` // nil: the answer has none
}

// Quotas are the limits of a namespace in the whole cluster. Zero fields are no limits, or the service's own.
type Quotas struct {
	MaxPending         int64   `json:"max_pending,omitempty"` // tasks that are not finished
	MaxBytes           int64   `json:"max_bytes,omitempty"`   // of these tasks
	MaxPayload         int64   `json:"max_payload,omitempty"` // bytes of one payload
	SchedulesPerSecond float64 `json:"schedules_per_second,omitempty"`
	CallsPerSecond     float64 `json:"calls_per_second,omitempty"`
	MaxConsumers       int64   `json:"max_consumers,omitempty"` // streams and waiting lease calls
	MaxQueues          int64   `json:"max_queues,omitempty"`    // queues with a policy
	Weight             int64   `json:"weight,omitempty"`        // its part of a node's capacity beside other namespaces
}

// Usage is how much of its quotas a namespace uses.
type Usage struct {
	Pending   int64 `json:"pending"`
	Bytes     int64 `json:"bytes"`
	Consumers int64 `json:"consumers"`
	Queues    int64 `json:"queues"`
}

func namespacePath(name string) string { return "/v1/namespaces/" + url.PathEscape(name) }

// PutNamespace makes a namespace, or replaces all its quotas.
func (c *Client) PutNamespace(ctx context.Context, name string, quotas Quotas) (*Namespace, error) {
	body, err := json.Marshal(quotas)
	if err != nil {
		return nil, err
	}
	return c.namespaceCall(ctx, call{method: http.MethodPut, path: namespacePath(name), body: body,
		contentType: jsonType, header: c.header(&options{})})
}

// Namespace returns a namespace with its use. The error is ErrNotFound if there is none of this name, or the key does
// not reach it.
func (c *Client) Namespace(ctx context.Context, name string) (*Namespace, error) {
	return c.namespaceCall(ctx, call{method: http.MethodGet, path: namespacePath(name)})
}

func (c *Client) namespaceCall(ctx context.Context, call call) (*Namespace, error) {
	namespace := new(Namespace)
	if err := c.do(ctx, call, readJSON(namespace)); err != nil {
		return nil, err
	}
	return namespace, nil
}

// Namespaces returns all namespaces, sorted by name.
func (c *Client) Namespaces(ctx context.Context) ([]Namespace, error) {
	var list struct{ Namespaces []Namespace }
	err := c.do(ctx, call{method: http.MethodGet, path: "/v1/namespaces"}, readJSON(&list))
	return list.Namespaces, err
}

// DeleteNamespace deletes a namespace with all its tasks and queues for ever. The namespace refuses calls at once, and
// the operation removes the tasks in the background.
func (c *Client) DeleteNamespace(ctx context.Context, name string) (*Operation, error) {
	return c.operationCall(ctx, call{method: http.MethodDelete, path: namespacePath(name), header: c.header(&options{})})
}
