package cluster

import (
	"cmp"
	"context"
	"math"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/belfryhq/belfry/client/view"
	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/cluster/control"
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
)

// viewBulk describes a bulk operation. waits is the reason to wait that the control group's leader gives.
func viewBulk(op *clusterpb.BulkOperation, waits string) *view.Operation {
	matched := int(op.Matched)
	v := &view.Operation{
		ID: op.Id, Kind: "bulk", Namespace: op.Namespace, State: view.OperationState(nameOf(op.State, statePrefix)),
		BeganAt: view.InstantOf(op.BeganMs), EndedAt: view.OptionalInstant(op.EndedMs), Detail: op.Detail,
		Percent: control.BulkPercent(op, task.Slots), Total: min(matched, math.MaxUint32),
		Done: int(min(control.SumOutcomes(op.Outcomes), math.MaxUint32)), Waits: []string{},
		Op: view.BulkOp(nameOf(op.Kind, bulkPrefix)), Filter: viewFilter(op.Filter), All: op.All, By: view.Span(op.ByMs),
		FireAt: view.OptionalInstant(op.ToMs), Patched: task.Patched(op.Patch), PerSecond: int(op.PerSecond),
		Matched: &matched, Outcomes: make(map[string]int),
	}
	if op.Schedules {
		v.Of, v.Filter.States, v.Note = "schedules", nil, op.Note
		for i, name := range v.Patched {
			v.Patched[i] = "task." + name
		}
		v.Patched = slices.Concat(op.Changed, v.Patched)
	}
	if op.Stopping && waits == "" {
		waits = "it stops after the calls that it has begun"
	}
	if waits != "" {
		v.Waits = []string{waits}
	}
	for _, c := range op.Outcomes {
		v.Outcomes[nameOf(c.Outcome, outcomePrefix)] = int(c.Tasks)
	}
	return v
}

func viewFilter(q *fsmpb.ListQuery) *view.Filter {
	f := &view.Filter{
		Queue: q.GetQueue(), Prefix: q.GetPrefix(), DueAfter: view.OptionalInstant(q.GetDueAfterMs()),
		DueBefore: view.OptionalInstant(q.GetDueBeforeMs()),
	}
	for _, l := range q.GetLabels() {
		f.Labels = append(f.Labels, l.Name+":"+l.Value)
	}
	for _, s := range q.GetStates() {
		f.States = append(f.States, view.TaskState(nameOf(s, taskPrefix)))
	}
	return f
}

// BeginBulk begins a bulk operation and returns it, or the one that has begun before with its id; same reports whether
// the two have the same Call. A caller may use any node, and sets the kind, the namespace, the filter and the fields of
// the kind, and an id if the request may be repeated. The error is a *task.ImpossibleError for an operation that may
// not begin.
func (s *Operations) BeginBulk(
	ctx context.Context, op *clusterpb.BulkOperation,
) (begun *view.Operation, same bool, err error) {
	op = proto.CloneOf(op)
	op.Id = cmp.Or(op.Id, control.NewOperationID()) // so the change may be repeated
	if op.Filter == nil {
		op.Filter = &fsmpb.ListQuery{}
	}
	if len(op.Filter.States) == 0 {
		op.Filter.States = control.BulkStates(op)
	}
	changed, err := s.changeBulk(ctx, &clusterpb.ControlEntry{
		Op: &clusterpb.ControlEntry_BeginBulk{BeginBulk: &clusterpb.BeginBulk{Operation: op}},
	})
	if err != nil {
		return nil, false, err
	}
	return viewBulk(changed, ""), changed.Call == op.Call, nil
}

// StopBulk stops a bulk operation, and returns it. The error is a *task.ImpossibleError if there is none.
func (s *Operations) StopBulk(ctx context.Context, id string) (*view.Operation, error) {
	changed, err := s.changeBulk(ctx, &clusterpb.ControlEntry{
		Op: &clusterpb.ControlEntry_StopBulk{StopBulk: &clusterpb.StopBulk{Id: id}},
	})
	if err != nil {
		return nil, err
	}
	return viewBulk(changed, ""), nil
}

func (s *Operations) changeBulk(ctx context.Context, entry *clusterpb.ControlEntry) (*clusterpb.BulkOperation, error) {
	changed, err := s.control.Change(ctx, &clusterpb.ControlChange{Entry: entry})
	switch {
	case err != nil:
		return nil, err
	case changed.Bulk == nil:
		return nil, &task.ImpossibleError{Reason: "there is no such bulk operation any more"}
	}
	return changed.Bulk, nil
}

// countTasks is the number of tasks of one list of CountBulk.
const countTasks = task.MaxListLimit

// CountBulk counts the tasks that a bulk operation would match now. It counts until ctx ends; all is false if tasks may
// be left then.
func (s *Operations) CountBulk(ctx context.Context, op *clusterpb.BulkOperation) (matched uint64, all bool, err error) {
	query := control.BulkQuery(op)
	query.Limit = countTasks
	for {
		page, err := s.router.List(ctx, query, false)
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
