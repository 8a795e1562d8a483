package node

import (
	"cmp"
	"context"

	"github.com/belfryhq/belfry/client/view"
	"github.com/belfryhq/belfry/cluster"
	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/httpapi"
)

// Begin begins an operation, or returns the plan of a preview.
func (b backend) Begin(ctx context.Context, r httpapi.OperationRequest) (*view.Operation, *view.Plan, error) {
	if r.ID != "" && !r.Preview {
		if op, _ := b.Operation(r.ID); op != nil {
			return b.Progress(ctx, op), nil, nil // an earlier request has begun it
		}
	}
	op := requested(r)
	if r.Node != "" {
		id, err := b.FindNode(r.Node)
		if err != nil {
			return nil, nil, err
		}
		op.Node = id
	}
	began, err := b.Operations.Begin(ctx, op, r.Preview)
	switch {
	case err != nil:
		return nil, nil, err
	case r.Preview:
		return nil, b.Plan(ctx, began), nil
	}
	return b.Progress(ctx, began.Operation), nil, nil
}

// requested returns the operation that a request asks for, without its node.
func requested(r httpapi.OperationRequest) *clusterpb.Operation {
	op := &clusterpb.Operation{
		Id: r.ID, Replication: r.Replication, Shard: r.Shard, Kind: cluster.OperationKind(r.Kind),
	}
	if op.Kind == clusterpb.OperationKind_OPERATION_KIND_BALANCE {
		op.Shards = r.To
		return op
	}
	op.Shard = cmp.Or(r.Shard, r.To)
	for _, slots := range r.Slots {
		op.Slots = append(op.Slots, &fsmpb.SlotRange{First: slots.First, End: slots.End})
	}
	return op
}

func (b backend) BeginBulk(ctx context.Context, r httpapi.BulkRequest) (*view.Operation, bool, error) {
	return b.Operations.BeginBulk(ctx, bulkOf(r))
}

func (b backend) CountBulk(ctx context.Context, r httpapi.BulkRequest) (matched uint64, all bool, err error) {
	return b.Operations.CountBulk(ctx, bulkOf(r))
}

// bulkOf returns the operation that a request asks for.
func bulkOf(r httpapi.BulkRequest) *clusterpb.BulkOperation {
	return &clusterpb.BulkOperation{
		Id: r.ID, Kind: cluster.BulkKind(r.Op), Namespace: r.Namespace, Filter: r.Filter, All: r.All,
		ByMs: r.ByMs, ToMs: r.ToMs, Patch: r.Patch, PerSecond: r.PerSecond, Call: r.Call,
		Schedules: r.Schedules, Settings: r.Settings, Changed: r.Changed, Note: r.Note,
	}
}
