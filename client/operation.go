package client

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"

	"github.com/belfryhq/belfry/client/view"
)

type (
	// Operation is a change of the cluster's shape, or of many tasks, that takes a while, with its progress.
	Operation = view.Operation
	// OperationKind is what an operation does.
	OperationKind = view.OperationKind
	// OperationState is the state of an operation.
	OperationState = view.OperationState
	// OperationFilter is the filter of a bulk operation.
	OperationFilter = view.Filter
	// Plan is the preview of an operation.
	Plan = view.Plan
	// PlanStep is one move of a replica, of a leadership, or of slots.
	PlanStep = view.PlanStep
)

// The kinds of operations.
const (
	Drain       OperationKind = "drain"       // moves all replicas off a node
	Rest        OperationKind = "rest"        // gives the leaderships of a node away; the node keeps its replicas
	Resume      OperationKind = "resume"      // lets a node take replicas and leaderships again
	Remove      OperationKind = "remove"      // moves all replicas off a node, and takes it out of the cluster
	Replace     OperationKind = "replace"     // takes a lost node out of the cluster; others make its replicas anew
	Replication OperationKind = "replication" // changes how many replicas each shard has
	Split       OperationKind = "split"       // moves half of a shard's slots to a new shard
	MoveSlots   OperationKind = "move_slots"  // moves slots to a shard
	Balance     OperationKind = "balance"     // gives all shards as many slots, new shards included
	KeepSlots   OperationKind = "keep_slots"  // stops one of these three; moves under way go on to their ends

	EraseNamespace OperationKind = "delete_namespace" // removes a namespace with its tasks and queues

	Bulk OperationKind = "bulk" // makes one call on many tasks; see BeginBulk
)

// The states of an operation.
const (
	OperationRunning OperationState = "running"
	OperationDone    OperationState = "done"
	OperationStopped OperationState = "stopped" // by another operation, or by StopOperation
)

// OperationRequest asks for an operation.
type OperationRequest struct {
	Kind        OperationKind
	Node        string // ID or name, if Kind is about a node
	Replication int    // if Kind is Replication
	Shard       int    // to split, if Kind is Split
	// To is the shard that gets the slots if Kind is MoveSlots, and the number of shards if Kind is Balance; 0: as many
	// as there are.
	To    int
	Slots string // if Kind is MoveSlots: "0-511,1024"
}

// Nodes returns the nodes of the cluster.
func (c *Client) Nodes(ctx context.Context) ([]Node, error) {
	var answer struct {
		Nodes []Node `json:"nodes"`
	}
	err := c.conn.do(ctx, call{method: http.MethodGet, path: "/v1/nodes"}, readJSON(&answer))
	return answer.Nodes, err
}

// Operations returns the operations under way, and the last that have ended, in the order of their beginning.
func (c *Client) Operations(ctx context.Context) ([]Operation, error) {
	var answer struct {
		Operations []Operation `json:"operations"`
	}
	err := c.conn.do(ctx, call{method: http.MethodGet, path: "/v1/operations"}, readJSON(&answer))
	return answer.Operations, err
}

// Operation returns one operation. The error is ErrNotFound if there is none.
func (c *Client) Operation(ctx context.Context, id string) (*Operation, error) {
	return fetch[Operation](ctx, c.conn, call{method: http.MethodGet, path: operationPath(id)})
}

// StopOperation stops an operation on a node, on slots or on tasks that is under way. It returns the operation that
// resumes the node, that keeps the slots where they are, or the stopped operation on tasks.
func (c *Client) StopOperation(ctx context.Context, id string, opts ...Option) (*Operation, error) {
	o := gather(opts)
	return fetch[Operation](ctx, c.conn, call{method: http.MethodDelete, path: operationPath(id),
		header: c.conn.header(&o)})
}

func operationPath(id string) string { return "/v1/operations/" + url.PathEscape(id) }

// Begin begins an operation, or returns the equal one that is under way. The error is ErrImpossible if the operation
// could not end.
func (c *Client) Begin(ctx context.Context, r OperationRequest, opts ...Option) (*Operation, error) {
	call, err := r.call(false)
	if err != nil {
		return nil, err
	}
	o := gather(opts)
	call.header = c.conn.header(&o)
	return fetch[Operation](ctx, c.conn, call)
}

// Preview returns the steps of an operation, and begins nothing.
func (c *Client) Preview(ctx context.Context, r OperationRequest) (*Plan, error) {
	call, err := r.call(true)
	if err != nil {
		return nil, err
	}
	return fetch[Plan](ctx, c.conn, call)
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
	case Split:
		path = fmt.Sprintf("/v1/shards/%d/split", r.Shard)
	case MoveSlots:
		path, members["slots"], members["to"] = "/v1/shards/move", r.Slots, r.To
	case Balance:
		if path = "/v1/shards/balance"; r.To > 0 {
			members["to"] = r.To
		}
	}
	body, err := json.Marshal(members)
	return call{method: method, path: path, body: body, contentType: jsonType}, err
}
