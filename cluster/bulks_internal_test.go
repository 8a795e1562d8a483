package cluster

import (
	"encoding/json"
	"testing"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/fsm/fsmpb"
)

// TestViewOfBulkOperations checks the JSON of bulk operations: of a move with all conditions that waits, and of a patch
// that has just begun.
func TestViewOfBulkOperations(t *testing.T) {
	for want, op := range map[string]*clusterpb.BulkOperation{
		`{"id":"op-1","kind":"bulk","namespace":"shop","state":"running","began_at":"2026-11-21T10:00:00.000Z",` +
			`"ended_at":null,"total":9,"done":7,"percent":25,"bytes_left":0,"bytes_per_second":0,"tasks_copied":0,` +
			`"waits":["node n1 is slow"],"op":"move","filter":{"queue":"q","prefix":"o-","label":["b:c:d","a:"],` +
			`"state":["scheduled","ready"],"due_after":"2026-11-21T10:00:00.000Z","due_before":"2026-11-21T10:00:00.001Z"},` +
			`"by":"-1h30m","fire_at":"1970-01-01T00:00:00.007Z","per_second":3,"matched":9,` +
			`"outcomes":{"already_fired":5,"moved":2}}`: {
			Id: "op-1", Namespace: "shop", Kind: clusterpb.BulkKind_BULK_KIND_MOVE, BeganMs: 1795255200000, Slot: 1024,
			ByMs: -90 * 60_000, ToMs: 7, PerSecond: 3, Matched: 9, Outcomes: []*clusterpb.BulkCount{
				{Outcome: clusterpb.BulkOutcome_BULK_OUTCOME_MOVED, Tasks: 2},
				{Outcome: clusterpb.BulkOutcome_BULK_OUTCOME_ALREADY_FIRED, Tasks: 5},
			},
			Filter: &fsmpb.ListQuery{
				Queue: "q", Prefix: "o-", Labels: []*fsmpb.Label{{Name: "b", Value: "c:d"}, {Name: "a"}},
				States:     []fsmpb.State{fsmpb.State_STATE_SCHEDULED, fsmpb.State_STATE_READY},
				DueAfterMs: 1795255200000, DueBeforeMs: 1795255200001,
			},
		},
		`{"id":"op-2","kind":"bulk","namespace":"default","state":"stopped","began_at":"1970-01-01T00:00:00.001Z",` +
			`"ended_at":"1970-01-01T00:00:00.002Z","total":0,"done":0,"percent":0,"bytes_left":0,"bytes_per_second":0,` +
			`"tasks_copied":0,"waits":["node n1 is slow"],"detail":"by its caller","op":"patch","filter":{},"all":true,` +
			`"patched":["labels"],"matched":0,"outcomes":{}}`: {
			Id: "op-2", Namespace: "default", Kind: clusterpb.BulkKind_BULK_KIND_PATCH, All: true, BeganMs: 1, EndedMs: 2,
			State: clusterpb.OperationState_OPERATION_STATE_STOPPED, Detail: "by its caller",
			Filter: &fsmpb.ListQuery{}, Patch: &fsmpb.Patch{Clear: []string{"labels"}},
		},
	} {
		if text, err := json.Marshal(viewBulk(op, "node n1 is slow")); err != nil || string(text) != want {
			t.Errorf("%s, %v\nwant %s", text, err, want)
		}
	}
	if waits := viewBulk(&clusterpb.BulkOperation{Stopping: true}, "").Waits; len(waits) != 1 {
		t.Errorf("an operation that stops waits for %q", waits)
	}
	if waits := viewBulk(&clusterpb.BulkOperation{}, "").Waits; waits == nil || len(waits) > 0 {
		t.Errorf("an operation that goes on waits for %q", waits)
	}
}
