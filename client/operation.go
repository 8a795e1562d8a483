package client

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"time"
)

// OperationKind is what an operation does.
type OperationKind string

// The kinds of operations.
const (
	Drain       OperationKind = "drain"       // moves all replicas off a node
	Rest        OperationKind = "rest"        // gives the leaderships of a node away; the node keeps its replicas
	Resume      OperationKind = "resume"      // lets a node take replicas and leaderships again
	Remove      OperationKind = "remove"      // moves all replicas off a node, and takes it out of the cluster
	Replace     OperationKind = "replace"     // takes a lost node out of the cluster; others make its replicas anew
	Replication OperationKind = "replication" // changes how many replicas each shard has
)

// OperationState is the state of an operation.
type OperationState string

// The states of an operation.
const (
	OperationRunning OperationState = "running"
	OperationDone    OperationState = "done"
	OperationStopped OperationState = "stopped" // by another operation
)

// Operation is a change of the cluster's shape that takes a while, with its progress.
type Operation struct {
	ID             string         `json:"id"`
	Kind           OperationKind  `json:"kind"`
	Node           string         `json:"node,omitempty"` // a node's ID; empty: it is about the whole cluster
	NodeName       string         `json:"node_name,omitempty"`
	Replication    int            `json:"replication,omitempty"`
	State          OperationState `json:"state"`
	BeganAt        time.Time      `json:"began_at"`
	EndedAt        *time.Time     `json:"ended_at"` // nil: it is under way
	Total          int            `json:"total"`    // replicas to move, add or remove; leaderships for Rest
	Done           int            `json:"done"`
	Percent        float64        `json:"percent"` // copies under way count in part
	BytesLeft      uint64         `json:"bytes_left"`
	BytesPerSecond uint64         `json:"bytes_per_second"`
	Waits          []string       `json:"waits"`            // reasons why it does not go on; empty: it does, or has ended
	Detail         string         `json:"detail,omitempty"` // why it was stopped
}

// OperationRequest asks for an operation.
type OperationRequest struct {
	Kind        OperationKind
	Node        string // ID or name, unless Kind is Replication
	Replication int    // if Kind is Replication
}

// Plan is the preview of an operation.
type Plan struct {
	Kind        OperationKind `json:"kind"`
	Node        string        `json:"node,omitempty"`
	NodeName    string        `json:"node_name,omitempty"`
	Replication int           `json:"replication,omitempty"`
	Total       int           `json:"total"`
	Bytes       uint64        `json:"bytes"` // to be copied, as far as known
	Steps       []PlanStep    `json:"steps"`
}

// PlanStep is one move of a replica or of a leadership.
type PlanStep struct {
	Shard    uint32 `json:"shard"`
	Action   string `json:"action"` // add, lead or remove
	Node     string `json:"node"`   // a node's ID
	NodeName string `json:"node_name"`
	Bytes    uint64 `json:"bytes"`
}

// Nodes returns the nodes of the cluster.
func (c *Client) Nodes(ctx context.Context) ([]Node, error) {
	var answer struct {
		Nodes []Node `json:"nodes"`
	}
	err := c.do(ctx, call{method: http.MethodGet, path: "/v1/nodes"}, readJSON(&answer))
	return answer.Nodes, err
}

// Operations returns the operations under way, and the last that have ended, in the order of their beginning.
func (c *Client) Operations(ctx context.Context) ([]Operation, error) {
	var answer struct {
		Operations []Operation `json:"operations"`
	}
	err := c.do(ctx, call{method: http.MethodGet, path: "/v1/operations"}, readJSON(&answer))
	return answer.Operations, err
}

// Operation returns one operation. The error is ErrNotFound if there is none.
func (c *Client) Operation(ctx context.Context, id string) (*Operation, error) {
	return c.operationCall(ctx, call{method: http.MethodGet, path: operationPath(id)})
}

// StopOperation stops an operation on a node that is under way, and returns the operation that resumes the node.
func (c *Client) StopOperation(ctx context.Context, id string, opts ...Option) (*Operation, error) {
	o := gather(opts)
	return c.operationCall(ctx, call{method: http.MethodDelete, path: operationPath(id), header: c.header(&o)})
}

func operationPath(id string) string { return "/v1/operations/" + url.PathEscape(id) }

// DrainNode moves all replicas off a node, named by its ID or name. The node stays in the cluster.
func (c *Client) DrainNode(ctx context.Context, node string, opts ...Option) (*Operation, error) {
	return c.Begin(ctx, OperationRequest{Kind: Drain, Node: node}, opts...)
}

// RestNode gives the leaderships of a node away, for maintenance. The node keeps its replicas.
func (c *Client) RestNode(ctx context.Context, node string, opts ...Option) (*Operation, error) {
	return c.Begin(ctx, OperationRequest{Kind: Rest, Node: node}, opts...)
}

// ResumeNode ends a drain, a rest, a removal or a replacement of a node.
func (c *Client) ResumeNode(ctx context.Context, node string, opts ...Option) (*Operation, error) {
	return c.Begin(ctx, OperationRequest{Kind: Resume, Node: node}, opts...)
}

// RemoveNode moves all replicas off a node, and takes it out of the cluster.
func (c *Client) RemoveNode(ctx context.Context, node string, opts ...Option) (*Operation, error) {
	return c.Begin(ctx, OperationRequest{Kind: Remove, Node: node}, opts...)
}

// ReplaceNode takes a node out of the cluster that will not come back.
func (c *Client) ReplaceNode(ctx context.Context, node string, opts ...Option) (*Operation, error) {
	return c.Begin(ctx, OperationRequest{Kind: Replace, Node: node}, opts...)
}

// SetReplication changes how many replicas each shard has: 1, 3, 5 or 7.
func (c *Client) SetReplication(ctx context.Context, replicas int, opts ...Option) (*Operation, error) {
	return c.Begin(ctx, OperationRequest{Kind: Replication, Replication: replicas}, opts...)
}

// Begin begins an operation, or returns the equal one that is under way. The error is ErrImpossible if the operation
// could not end.
func (c *Client) Begin(ctx context.Context, r OperationRequest, opts ...Option) (*Operation, error) {
	call, err := r.call(false)
	if err != nil {
		return nil, err
	}
	o := gather(opts)
	call.header = c.header(&o)
	return c.operationCall(ctx, call)
}

// Preview returns the steps of an operation, and begins nothing.
func (c *Client) Preview(ctx context.Context, r OperationRequest) (*Plan, error) {
	call, err := r.call(true)
	if err != nil {
		return nil, err
	}
	plan := new(Plan)
	if err := c.do(ctx, call, readJSON(plan)); err != nil {
		return nil, err
	}
	return plan, nil
}

// call returns the request's call, without a key.
func (r OperationRequest) call(preview bool) (_ call, err error) {
	members := map[string]any{}
	if preview {
		members["preview"] = true
	}
	method, path := http.MethodPost, "/v1/nodes/"+url.PathEscape(r.Node)+"/"+string(r.Kind)
	switch r.Kind {
	case Replication:
		method, path, members["replication"] = http.MethodPut, "/v1/cluster", r.Replication
	case Rest:
		path, members["leaders"] = "/v1/nodes/"+url.PathEscape(r.Node)+"/"+string(Drain), true
	}
	body, err := json.Marshal(members)
	return call{method: method, path: path, body: body, contentType: jsonType}, err
}

func (c *Client) operationCall(ctx context.Context, call call) (*Operation, error) {
	op := new(Operation)
	if err := c.do(ctx, call, readJSON(op)); err != nil {
		return nil, err
	}
	return op, nil
}
