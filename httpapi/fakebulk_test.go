package httpapi

import (
	"context"
	"fmt"
)

// BeginBulk begins a bulk operation, whose namespace may not be full.
func (f *fakeBackend) BeginBulk(_ context.Context, r BulkRequest) (*OperationView, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.readErr != nil:
		return nil, f.readErr
	case r.Filter.Queue == "full":
		return nil, &ImpossibleError{Reason: "too many bulk operations are under way"}
	}
	for i := range f.operations {
		if f.operations[i].ID == r.ID {
			return &f.operations[i], nil
		}
	}
	f.bulks = append(f.bulks, r)
	f.operations = append(f.operations, OperationView{
		ID: orElse(r.ID, fmt.Sprintf("op-%d", len(f.operations))), Kind: BulkKind, State: isRunning, Namespace: r.Namespace,
		BeganAt: Instant(testNow.UnixMilli()), Total: 7, Done: 5, Percent: 12.5,
		BulkView: &BulkView{
			Op: r.Op, Filter: BulkFilterOf(r.Filter), All: r.All, By: BulkBy(r.ByMs), FireAt: instantOf(r.ToMs), Patched: PatchedBy(r.Patch),
			PerSecond: r.PerSecond, Matched: 7, Outcomes: map[string]uint64{"cancelled": 4, "gone": 1}, Call: r.Call,
		},
	})
	return &f.operations[len(f.operations)-1], nil
}

// CountBulk counts three tasks.
func (f *fakeBackend) CountBulk(_ context.Context, r BulkRequest) (matched uint64, all bool, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.counted = append(f.counted, r)
	return 3, r.Filter.Queue != "large", f.readErr
}

// StopBulk stops a bulk operation.
func (f *fakeBackend) StopBulk(_ context.Context, id string) (*OperationView, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.readErr != nil {
		return nil, f.readErr
	}
	for i := range f.operations {
		if f.operations[i].ID == id {
			f.operations[i].State, f.operations[i].EndedAt = "stopped", instantOf(testNow.UnixMilli())
			return &f.operations[i], nil
		}
	}
	return nil, &ImpossibleError{Reason: "there is none"}
}
