package client

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"time"
)

// Role is a kind of work that the holder of a key may do.
type Role string

// The roles. Each one includes RoleRead, and RoleAdmin includes all.
const (
	RoleRead     Role = "read"     // reads tasks, queues and the state of the cluster
	RoleSchedule Role = "schedule" // makes, changes and cancels tasks
	RoleConsume  Role = "consume"  // leases and settles tasks
	RoleOperate  Role = "operate"  // changes queues, nodes and shards, and makes backups
	RoleAdmin    Role = "admin"    // manages keys and namespaces, and reads the audit log
)

// AllNamespaces is the namespace of a grant that reaches all of them.
const AllNamespaces = "*"

// Grant allows a role within a namespace. Each entry of Queues and IDs is a name, or a prefix that ends in an asterisk;
// an empty list allows all.
type Grant struct {
	Role      Role     `json:"role"`
	Namespace string   `json:"namespace"` // AllNamespaces: every one, and the calls about the whole cluster
	Queues    []string `json:"queues,omitempty"`
	IDs       []string `json:"ids,omitempty"`
}

// APIKey describes an API key, without its text.
type APIKey struct {
	ID         string     `json:"id"` // the public part of the text
	Name       string     `json:"name"`
	Grants     []Grant    `json:"grants"`
	CreatedAt  time.Time  `json:"created_at"`
	ExpiresAt  *time.Time `json:"expires_at"`   // nil: never
	LastUsedAt *time.Time `json:"last_used_at"` // to the hour; nil: never
	Quotas     *Quotas    `json:"quotas,omitempty"`
}

// NewAPIKey is a key that was just made or rotated. The service keeps only a hash of its text.
type NewAPIKey struct {
	APIKey
	Key Secret `json:"key"` // the text for Config.Key

	OutlivesMaker bool `json:"outlives_maker,omitempty"` // it ends later than the key that has made it
}

// KeyRequest describes a key to be made.
type KeyRequest struct {
	Name      string // for people, 1 to 100 characters
	Grants    []Grant
	ExpiresAt time.Time // zero: never
	// Quotas limit the calls with this key, beside those of the namespace: MaxPayload, MaxConsumers and the rates.
	Quotas Quotas
}

// CreateKey makes an API key, which is valid at the answering node at once, and at every node within a second. A repeat
// after a lost answer makes another key, so that one may remain that no caller knows.
func (c *Client) CreateKey(ctx context.Context, r KeyRequest) (*NewAPIKey, error) {
	members := map[string]any{"name": r.Name, "grants": r.Grants}
	if !r.ExpiresAt.IsZero() {
		members["expires_at"] = r.ExpiresAt.UTC()
	}
	if r.Quotas != (Quotas{}) {
		members["quotas"] = r.Quotas
	}
	return c.newKey(ctx, "/v1/keys", members)
}

// RotateKey gives a key a new text. The earlier text stays valid for the overlap, at most 30 days. A key has at most
// two valid texts: the service refuses another overlap before the end of an earlier one, but for 0, which ends both of
// the earlier texts.
func (c *Client) RotateKey(ctx context.Context, id string, overlap time.Duration) (*NewAPIKey, error) {
	return c.newKey(ctx, keyPath(id)+"/rotate", map[string]any{"overlap": spanText(overlap)})
}

func (c *Client) newKey(ctx context.Context, path string, members map[string]any) (*NewAPIKey, error) {
	body, err := json.Marshal(members)
	if err != nil {
		return nil, err
	}
	made := new(NewAPIKey)
	call := call{method: http.MethodPost, path: path, body: body, contentType: jsonType}
	if err := c.do(ctx, call, readJSON(made)); err != nil {
		return nil, err
	}
	return made, nil
}

func keyPath(id string) string { return "/v1/keys/" + url.PathEscape(id) }

// Keys returns the API keys that the caller may manage.
func (c *Client) Keys(ctx context.Context) ([]APIKey, error) {
	var list struct{ Keys []APIKey }
	err := c.do(ctx, call{method: http.MethodGet, path: "/v1/keys"}, readJSON(&list))
	return list.Keys, err
}

// Key returns an API key. The error is ErrNotFound if there is none with this ID.
func (c *Client) Key(ctx context.Context, id string) (*APIKey, error) {
	key := new(APIKey)
	if err := c.do(ctx, call{method: http.MethodGet, path: keyPath(id)}, readJSON(key)); err != nil {
		return nil, err
	}
	return key, nil
}

// RevokeKey ends an API key for ever, at the answering node at once, and at every node within a second. The error is
// ErrNotFound if there is none with this ID.
func (c *Client) RevokeKey(ctx context.Context, id string) error {
	err := c.do(ctx, call{method: http.MethodDelete, path: keyPath(id)}, func(reply) error { return nil })
	if errors.Is(err, ErrNotFound) && repeated(err) {
		return nil // an attempt whose answer was lost has revoked it
	}
	return err
}

// Caller is the identity behind a call.
type Caller struct {
	Kind      string  `json:"kind"` // key, root key, token, certificate, or local where no keys are in force
	ID        string  `json:"id"`   // of the key; subject of a token or certificate
	Name      string  `json:"name"`
	Grants    []Grant `json:"grants"`
	Namespace string  `json:"namespace"` // of calls without Config.Namespace
}

// WhoAmI returns the identity that the service sees behind this client's calls.
func (c *Client) WhoAmI(ctx context.Context) (*Caller, error) {
	caller := new(Caller)
	if err := c.do(ctx, call{method: http.MethodGet, path: "/v1/whoami"}, readJSON(caller)); err != nil {
		return nil, err
	}
	return caller, nil
}

// Namespace is a part of the cluster with ids, queues and quotas of its own.
type Namespace struct {
	Name string `json:"name"`
	Quotas
	State     string    `json:"state,omitempty"` // active or deleting
	CreatedAt time.Time `json:"created_at,omitzero"`
	Used      *Usage    `json:"used,omitempty"` // only in the answer of Namespace
}

// Quotas are the limits of a namespace or a key in the whole cluster. Zero fields are no limits, or the service's own.
type Quotas struct {
	MaxPending         int64   `json:"max_pending,omitempty"` // tasks that are not finished
	MaxBytes           int64   `json:"max_bytes,omitempty"`   // of all tasks, dead letters included
	MaxPayload         int64   `json:"max_payload,omitempty"` // bytes of one payload
	SchedulesPerSecond float64 `json:"schedules_per_second,omitempty"`
	CallsPerSecond     float64 `json:"calls_per_second,omitempty"`
	MaxConsumers       int64   `json:"max_consumers,omitempty"` // streams and waiting lease calls
	MaxQueues          int64   `json:"max_queues,omitempty"`    // queues with a policy or a task
	Weight             int64   `json:"weight,omitempty"`        // its part of a node's capacity beside other namespaces
}

// Usage is how much of its quotas a namespace uses.
type Usage struct {
	Pending int64 `json:"pending"` // tasks that are not finished
	Dead    int64 `json:"dead"`    // dead letters
	Bytes   int64 `json:"bytes"`   // of both

	Queues    int64 `json:"queues"`    // queues with a policy or a task, finished ones included
	Consumers int64 `json:"consumers"` // streams and waiting lease calls

	// Calls admitted over the last second; 0 without a quota of them.
	SchedulesPerSecond float64 `json:"schedules_per_second"`
	CallsPerSecond     float64 `json:"calls_per_second"`
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
