package client

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"time"

	"github.com/belfryhq/belfry/client/view"
)

type (
	// Role is a kind of work that the holder of a key may do.
	Role = view.Role
	// Grant allows a role within a namespace.
	Grant = view.Grant
	// APIKey describes an API key, without its text.
	APIKey = view.APIKey
	// JWTKey is a key by which the cluster signs the tokens of webhooks.
	JWTKey = view.JWTKey
	// Caller is the identity behind a call.
	Caller = view.Caller
	// Namespace is a part of the cluster with ids, queues and quotas of its own.
	Namespace = view.Namespace
	// Quotas are the limits of a namespace or a key in the whole cluster.
	Quotas = view.Quotas
	// Usage is how much of its quotas a namespace uses.
	Usage = view.Usage
)

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

// RotateJWTKeys makes newer keys that sign the tokens of webhooks, and returns all keys in the order of their making.
// The older ones stay published for the overlap, from 15 minutes to 30 days; 0 ends them at once, as after a leak.
func (c *Client) RotateJWTKeys(ctx context.Context, overlap time.Duration) ([]JWTKey, error) {
	body, err := json.Marshal(map[string]any{"overlap": spanText(overlap)})
	if err != nil {
		return nil, err
	}
	var list struct{ Keys []JWTKey }
	call := call{method: http.MethodPost, path: "/v1/cluster/jwt-keys/rotate", body: body, contentType: jsonType}
	err = c.conn.do(ctx, call, readJSON(&list))
	return list.Keys, err
}

func (c *Client) newKey(ctx context.Context, path string, members map[string]any) (*NewAPIKey, error) {
	body, err := json.Marshal(members)
	if err != nil {
		return nil, err
	}
	call := call{method: http.MethodPost, path: path, body: body, contentType: jsonType}
	return fetch[NewAPIKey](ctx, c.conn, call)
}

func keyPath(id string) string { return "/v1/keys/" + url.PathEscape(id) }

// Keys returns the API keys that the caller may manage.
func (c *Client) Keys(ctx context.Context) ([]APIKey, error) {
	var list struct{ Keys []APIKey }
	err := c.conn.do(ctx, call{method: http.MethodGet, path: "/v1/keys"}, readJSON(&list))
	return list.Keys, err
}

// Key returns an API key. The error is ErrNotFound if there is none with this ID.
func (c *Client) Key(ctx context.Context, id string) (*APIKey, error) {
	return fetch[APIKey](ctx, c.conn, call{method: http.MethodGet, path: keyPath(id)})
}

// RevokeKey ends an API key for ever, at the answering node at once, and at every node within a second. The error is
// ErrNotFound if there is none with this ID.
func (c *Client) RevokeKey(ctx context.Context, id string) error {
	err := c.conn.do(ctx, call{method: http.MethodDelete, path: keyPath(id)}, func(reply) error { return nil })
	if errors.Is(err, ErrNotFound) && repeated(err) {
		return nil // an attempt whose answer was lost has revoked it
	}
	return err
}

// WhoAmI returns the identity that the service sees behind this client's calls.
func (c *Client) WhoAmI(ctx context.Context) (*Caller, error) {
	return fetch[Caller](ctx, c.conn, call{method: http.MethodGet, path: "/v1/whoami"})
}

func namespacePath(name string) string { return "/v1/namespaces/" + url.PathEscape(name) }

// PutNamespace makes a namespace, or replaces all its quotas.
func (c *Client) PutNamespace(ctx context.Context, name string, quotas Quotas) (*Namespace, error) {
	body, err := json.Marshal(quotas)
	if err != nil {
		return nil, err
	}
	return fetch[Namespace](ctx, c.conn, call{method: http.MethodPut, path: namespacePath(name), body: body,
		contentType: jsonType, header: c.conn.header(&options{})})
}

// Namespace returns a namespace with its use. The error is ErrNotFound if there is none of this name, or the key does
// not reach it.
func (c *Client) Namespace(ctx context.Context, name string) (*Namespace, error) {
	return fetch[Namespace](ctx, c.conn, call{method: http.MethodGet, path: namespacePath(name)})
}

// Namespaces returns all namespaces, sorted by name.
func (c *Client) Namespaces(ctx context.Context) ([]Namespace, error) {
	var list struct{ Namespaces []Namespace }
	err := c.conn.do(ctx, call{method: http.MethodGet, path: "/v1/namespaces"}, readJSON(&list))
	return list.Namespaces, err
}

// DeleteNamespace deletes a namespace with all its tasks and queues for ever. The namespace refuses calls at once, and
// the operation removes the tasks in the background.
func (c *Client) DeleteNamespace(ctx context.Context, name string) (*Operation, error) {
	return fetch[Operation](ctx, c.conn, call{method: http.MethodDelete, path: namespacePath(name),
		header: c.conn.header(&options{})})
}
