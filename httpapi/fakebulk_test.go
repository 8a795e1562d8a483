package httpapi

import (
	"context"
	"fmt"
	"slices"

	"github.com/belfryhq/belfry/client/view"
	"github.com/belfryhq/belfry/fsm/task"
)

// BeginBulk begins a bulk operation, whose namespace may not be full.
func (f *fakeBackend) BeginBulk(_ context.Context, r BulkRequest) (*view.Operation, bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.readErr != nil:
		return nil, false, f.readErr
	case r.Filter.Queue == "full":
		return nil, false, &task.ImpossibleError{Reason: "too many bulk operations are under way"}
	}
	for i := range f.operations {
		if f.operations[i].ID == r.ID {
			same := func(b BulkRequest) bool { return b.ID == r.ID && b.Call == r.Call }
			return &f.operations[i], slices.ContainsFunc(f.bulks, same), nil
		}
	}
	f.bulks = append(f.bulks, r)
	filter, matched := &view.Filter{Queue: r.Filter.Queue, Prefix: r.Filter.Prefix}, 7
	for _, l := range r.Filter.Labels {
		filter.Labels = append(filter.Labels, l.Name+":"+l.Value)
	}
	for _, s := range r.Filter.States {
		filter.States = append(filter.States, view.TaskState(stateName(s)))
	}
	op := view.Operation{
		ID: orElse(r.ID, fmt.Sprintf("op-%d", len(f.operations))), Kind: bulkKind, State: isRunning, Namespace: r.Namespace,
		BeganAt: view.InstantOf(testNow.UnixMilli()), Total: 7, Done: 5, Percent: 12.5, Op: view.BulkOp(r.Op), Filter: filter,
		All: r.All, By: view.Span(r.ByMs), FireAt: view.OptionalInstant(r.ToMs), Patched: task.Patched(r.Patch),
		PerSecond: int(r.PerSecond), Matched: &matched, Outcomes: map[string]int{"cancelled": 4, "gone": 1},
	}
	f.operations = append(f.operations, op)
	return &f.operations[len(f.operations)-1], true, nil
}

// CountBulk counts three tasks.
func (f *fakeBackend) CountBulk(_ context.Context, r BulkRequest) (matched uint64, all bool, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.counted = append(f.counted, r)
	return 3, r.Filter.Queue != "large", f.readErr
}

// StopBulk stops a bulk operation.
func (f *fakeBackend) StopBulk(_ context.Context, id string) (*view.Operation, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.readErr != nil {
		return nil, f.readErr
	}
	for i := range f.operations {
		if f.operations[i].ID == id {
			f.operations[i].State, f.operations[i].EndedAt = "stopped", view.OptionalInstant(testNow.UnixMilli())
			return &f.operations[i], nil
		}
	}
	return nil, &task.ImpossibleError{Reason: "there is none"}
}
