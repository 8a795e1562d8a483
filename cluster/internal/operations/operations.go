// Package operations begins the operations of operators: drain, resume, remove or replace a node, change the
// replication factor, split shards, move slots. The leader of the control group judges and commits each of them; see
// package control. Any node takes the request and passes it on.
//
// An operation has an id before it is passed on, so it may be passed on again after an unknown outcome: the leader
// begins it once.
package operations

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/belfryhq/belfry/cluster/calls"
	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/cluster/control"
	"github.com/belfryhq/belfry/cluster/leaders"
	"github.com/belfryhq/belfry/fsm/task"
)

// Config holds the ways to the control group.
type Config struct {
	Self    string // node id
	Control *control.Replica
	Node    func(id string) calls.Node // asks another node
}

// Operations begins operations. Its methods are safe for concurrent use.
type Operations struct{ cfg Config }

// New returns the operations of a node.
func New(cfg Config) *Operations { return &Operations{cfg} }

// ChangeBulk begins or stops a bulk operation, and returns it as it is then. It returns nil if there is none to stop.
// An operation to begin has an id; one that has begun before with the id is returned instead. The errors are those of
// Begin.
func (o *Operations) ChangeBulk(ctx context.Context, change *clusterpb.BulkChange) (*clusterpb.BulkOperation, error) {
	if _, limited := ctx.Deadline(); !limited {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, patience)
		defer cancel()
	}
	for search := o.cfg.Control.Search(); ; {
		changed, err := o.changeBulkAt(ctx, search.Next(), change)
		switch {
		case err == nil && changed.Impossible != "":
			return nil, &control.ImpossibleError{Reason: changed.Impossible}
		case err == nil:
			o.awaitBulk(ctx, changed.Operation)
			return changed.Operation, nil
		case !leaders.Repeatable(err) && !errors.Is(err, task.ErrUnknown):
			return nil, err
		}
		if err := search.Again(ctx, err); err != nil {
			return nil, err
		}
	}
}

func (o *Operations) changeBulkAt(
	ctx context.Context, node string, change *clusterpb.BulkChange,
) (*clusterpb.BulkChanged, error) {
	if node == o.cfg.Self {
		return o.cfg.Control.ChangeBulk(ctx, change)
	}
	return o.cfg.Node(node).ChangeBulk(ctx, change)
}

// awaitBulk waits until this node knows the operation, so that it can answer for it.
func (o *Operations) awaitBulk(ctx context.Context, op *clusterpb.BulkOperation) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	for op != nil {
		state, changed := o.cfg.Control.Watch()
		if control.FindBulk(state, op.Id) != nil {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return // it has begun all the same
		}
	}
}

// patience bounds a call whose context has no deadline.
const patience = 10 * time.Second

// Begin begins an operation, which gets an id if it has none, and returns it with the moves that it needs.
// An operation that has begun before, by its id, or an equal one that is under way is returned instead. A preview
// begins nothing. The error is a *control.ImpossibleError for an operation that could not end, and wraps
// task.ErrNotProposed or task.ErrUnknown if the control group does not answer.
func (o *Operations) Begin(ctx context.Context, op *clusterpb.Operation, preview bool) (*clusterpb.Began, error) {
	if _, limited := ctx.Deadline(); !limited {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, patience)
		defer cancel()
	}
	op = proto.CloneOf(op)
	if op.Id == "" {
		op.Id = control.NewOperationID()
	}
	call := &clusterpb.BeginCall{Operation: op, Preview: preview}
	for search := o.cfg.Control.Search(); ; {
		began, err := o.beginAt(ctx, search.Next(), call)
		switch {
		case err == nil && began.Impossible != "":
			return nil, &control.ImpossibleError{Reason: began.Impossible}
		case err == nil:
			o.awaitHere(ctx, began.Operation, preview)
			return began, nil
		case !leaders.Repeatable(err) && !errors.Is(err, task.ErrUnknown):
			return nil, err
		}
		if err := search.Again(ctx, err); err != nil {
			return nil, err
		}
	}
}

// awaitHere waits until this node knows the operation, so that it can answer for it.
func (o *Operations) awaitHere(ctx context.Context, op *clusterpb.Operation, preview bool) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	for !preview {
		state, changed := o.cfg.Control.Watch()
		if control.FindOperation(state, op.Id) != nil {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return // it has begun all the same
		}
	}
}

// beginAt asks a node to begin the operation. The node does so if it leads the control group.
func (o *Operations) beginAt(
	ctx context.Context, node string, call *clusterpb.BeginCall,
) (*clusterpb.Began, error) {
	if node == o.cfg.Self {
		return o.BeginHere(ctx, call)
	}
	return o.cfg.Node(node).Begin(ctx, call)
}

// BeginHere begins an operation through this node's replica of the control group.
func (o *Operations) BeginHere(ctx context.Context, call *clusterpb.BeginCall) (*clusterpb.Began, error) {
	g := o.cfg.Control.Group()
	if g == nil {
		return nil, fmt.Errorf("%w: this node is in no cluster yet", task.ErrNotProposed)
	}
	op, moves, err := g.Begin(ctx, call.Operation, call.Preview)
	var impossible *control.ImpossibleError
	switch {
	case errors.As(err, &impossible):
		return &clusterpb.Began{Impossible: impossible.Reason}, nil
	case err != nil:
		return nil, err
	}
	return &clusterpb.Began{Operation: op, Moves: moves}, nil
}
