package cluster

import (
	"cmp"
	"context"

	"google.golang.org/protobuf/proto"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/cluster/control"
	"github.com/belfryhq/belfry/cluster/internal/bulk"
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
)

// BulkView is a bulk operation with its progress.
type BulkView struct {
	*clusterpb.BulkOperation
	Done    uint64  // tasks whose outcomes are counted
	Percent float64 // of the slots; 100 only at the end
	Waits   string  // reason why it waits; empty: it goes on, or has ended
}

// bulkView returns an operation with its progress. waits is the reason that the control group's leader gives.
func bulkView(op *clusterpb.BulkOperation, waits string) BulkView {
	v := BulkView{
		BulkOperation: op, Done: bulk.Sum(op.Outcomes), Percent: bulk.Percent(op, task.Slots), Waits: waits,
	}
	if op.Stopping && waits == "" {
		v.Waits = "it stops after the calls that it has begun"
	}
	return v
}

// BeginBulk begins a bulk operation and returns it, or the one that has begun before with its id. A caller may use any
// node, and sets the kind, the namespace, the filter and the fields of the kind, and an id if the request may be
// repeated. The error is a *control.ImpossibleError for an operation that may not begin.
func (n *Node) BeginBulk(ctx context.Context, op *clusterpb.BulkOperation) (BulkView, error) {
	op = proto.CloneOf(op)
	op.Id = cmp.Or(op.Id, control.NewOperationID()) // so the change may be repeated
	if op.Filter == nil {
		op.Filter = &fsmpb.ListQuery{}
	}
	if len(op.Filter.States) == 0 {
		op.Filter.States = bulk.States(op.Kind)
	}
	return n.changeBulk(ctx, &clusterpb.ControlEntry{
		Op: &clusterpb.ControlEntry_BeginBulk{BeginBulk: &clusterpb.BeginBulk{Operation: op}},
	})
}

// StopBulk stops a bulk operation, and returns it. The error is a *control.ImpossibleError if there is none.
func (n *Node) StopBulk(ctx context.Context, id string) (BulkView, error) {
	return n.changeBulk(ctx, &clusterpb.ControlEntry{
		Op: &clusterpb.ControlEntry_StopBulk{StopBulk: &clusterpb.StopBulk{Id: id}},
	})
}

func (n *Node) changeBulk(ctx context.Context, entry *clusterpb.ControlEntry) (BulkView, error) {
	changed, err := n.control.Change(ctx, &clusterpb.ControlChange{Entry: entry})
	switch {
	case err != nil:
		return BulkView{}, err
	case changed.Bulk == nil:
		return BulkView{}, &control.ImpossibleError{Reason: "there is no such bulk operation any more"}
	}
	return bulkView(changed.Bulk, ""), nil
}

// countTasks is the number of tasks of one list of CountBulk.
const countTasks = task.MaxListLimit

// CountBulk counts the tasks that a bulk operation would match now. It counts until ctx ends; all is false if tasks may
// be left then.
func (n *Node) CountBulk(ctx context.Context, op *clusterpb.BulkOperation) (matched uint64, all bool, err error) {
	query := bulk.Query(op)
	query.Limit = countTasks
	for {
		page, err := n.List(ctx, query, false)
		switch {
		case err != nil && ctx.Err() != nil && matched > 0:
			return matched, false, nil
		case err != nil:
			return 0, false, err
		}
		if matched += uint64(len(page.Tasks)); !page.More {
			return matched, true, nil
		}
		query.Slot, query.AfterId = page.Slot, page.AfterId
	}
}
