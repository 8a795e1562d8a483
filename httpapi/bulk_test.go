package httpapi

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/belfryhq/belfry/client/view"
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/internal/assert"
)

const operations = "/v1/operations"

// TestBulkOperationsAreRead checks what the backend gets for each kind of operation.
func TestBulkOperationsAreRead(t *testing.T) {
	filter := &fsmpb.ListQuery{Queue: "q", Prefix: "o-", Labels: []*fsmpb.Label{{Name: "a", Value: "b:c"}, {Name: "x"}},
		States:     []fsmpb.State{fsmpb.State_STATE_READY, fsmpb.State_STATE_DEAD},
		DueAfterMs: 1795255200000, DueBeforeMs: 1795258800000}
	const conditions = `"filter":{"queue":"q","prefix":"o-","label":["a:b:c","x="],"state":["ready","dead"],` +
		`"due_after":"2026-11-21T10:00:00Z","due_before":"2026-11-21T11:00:00Z"}`
	for body, want := range map[string]BulkRequest{
		`{"op":"cancel",` + conditions + `}`:                 {Op: "cancel", Filter: filter},
		`{"op":"cancel",` + conditions + `,"per_second":10}`: {Op: "cancel", Filter: filter, PerSecond: 10},
		`{"op":"fire","all":true}`:                           {Op: "fire", All: true},
		`{"op":"purge","filter":{},"all":true}`:              {Op: "purge", All: true},
		`{"op":"replay","filter":{"state":"dead","label":"k:v"}}`: {Op: "replay", Filter: &fsmpb.ListQuery{
			States: []fsmpb.State{fsmpb.State_STATE_DEAD}, Labels: []*fsmpb.Label{{Name: "k", Value: "v"}},
		}},
		`{"op":"move","all":true,"by":"-90m"}`:                 {Op: "move", All: true, ByMs: -90 * 60_000},
		`{"op":"move","all":true,"to":"2026-11-21T10:00:00Z"}`: {Op: "move", All: true, ToMs: 1795255200000},
		`{"op":"patch","all":true,"patch":{"target":{"url":"https://new.example/","timeout":"5s"},"labels":{"a":null},` +
			`"retry":{"max_attempts":3}}}`: {Op: "patch", All: true, Patch: &fsmpb.Patch{
			Clear: []string{"labels.a", "retry.max_attempts", "target.timeout"}, Set: &fsmpb.Spec{
				Target: &fsmpb.Target{Url: "https://new.example/", TimeoutMs: 5000}, Retry: &fsmpb.Retry{MaxAttempts: 3},
			},
		}},
		`{"op":"pause","of":"schedules","filter":{"prefix":"o-","label":"k:v"},"note":"x"}`: {
			Op: "pause", Schedules: true, Note: "x",
			Filter: &fsmpb.ListQuery{Prefix: "o-", Labels: []*fsmpb.Label{{Name: "k", Value: "v"}}},
		},
		`{"op":"delete","of":"schedules","all":true}`: {Op: "delete", Schedules: true, All: true},
		`{"op":"cancel","of":"tasks","all":true}`:     {Op: "cancel", All: true},
		`{"patch":{"repeat":{"time_zone":"Europe/Berlin","every":null},"note":null,"misfire_window":"1h",` +
			`"task":{"labels":{"a":"b"}}},"op":"patch","of":"schedules","all":true}`: {
			Op: "patch", Schedules: true, All: true, Changed: []string{"repeat.every", "repeat.time_zone", "note", "misfire_window"},
			Settings: &fsmpb.Series{MisfireWindowMs: 3_600_000, Repeat: &fsmpb.Repeat{TimeZone: "Europe/Berlin"}},
			Patch:    &fsmpb.Patch{Set: &fsmpb.Spec{Labels: []*fsmpb.Label{{Name: "a", Value: "b"}}}},
		},
		`{"op":"patch","all":true,"patch":{"labels":null}}`: {Op: "patch", All: true, Patch: &fsmpb.Patch{
			Clear: []string{"labels"}, Set: &fsmpb.Spec{},
		}},
	} {
		h := newHarness(t)
		h.call("POST", operations, body).mustStatus(t, 202)
		got := h.fake.bulks[0]
		if want.Filter == nil {
			want.Filter = &fsmpb.ListQuery{}
		}
		if got.Op != want.Op || got.All != want.All || got.ByMs != want.ByMs || got.ToMs != want.ToMs ||
			got.PerSecond != want.PerSecond || got.Schedules != want.Schedules || got.Note != want.Note ||
			!proto.Equal(got.Settings, want.Settings) || !slices.Equal(got.Changed, want.Changed) || !proto.Equal(got.Filter, want.Filter) ||
			!proto.Equal(got.Patch, want.Patch) || got.Namespace != "default" || got.DryRun {
			t.Errorf("%s\nbecame %+v", body, got)
		}
	}
}

// TestBadBulkOperations checks that each fault is refused with the name of its field, and begins nothing.
func TestBadBulkOperations(t *testing.T) {
	h := newHarness(t)
	const some = `"filter":{"queue":"q"}`
	for body, field := range map[string]string{
		`{}`:                                                                   "op",
		`{"op":"erase",` + some + `}`:                                          "op",
		`{"op":"cancel"}`:                                                      "filter",
		`{"op":"cancel","filter":{}}`:                                          "filter",
		`{"op":"cancel","all":false}`:                                          "filter",
		`{"op":"cancel","all":true,` + some + `}`:                              "all",
		`{"op":"cancel","filter":{"queue":"a b"}}`:                             "filter.queue",
		`{"op":"cancel","filter":{"prefix":""}}`:                               "filter.prefix",
		`{"op":"cancel","filter":{"color":"b"}}`:                               "filter.color",
		`{"op":"cancel","filter":{"label":"x"}}`:                               "filter.label",
		`{"op":"cancel","filter":{"label":["a:1","a:1"]}}`:                     "filter.label",
		`{"op":"cancel","filter":{"state":"repeating"}}`:                       "filter.state",
		`{"op":"cancel","filter":{"state":7}}`:                                 "filter.state",
		`{"op":"cancel","filter":{"due_after":"soon"}}`:                        "filter.due_after",
		`{"op":"cancel","filter":{"due_before":"1960-01-01T00:00:00Z"}}`:       "filter.due_before",
		`{"op":"cancel","by":"1h",` + some + `}`:                               "by",
		`{"op":"fire","to":"2026-11-21T10:00:00Z",` + some + `}`:               "to",
		`{"op":"cancel","patch":{},` + some + `}`:                              "patch",
		`{"op":"move",` + some + `}`:                                           "by",
		`{"op":"move","by":"1h","to":"2026-11-21T10:00:00Z",` + some + `}`:     "by",
		`{"op":"move","by":"0s",` + some + `}`:                                 "by",
		`{"op":"move","by":"-36501d",` + some + `}`:                            "by",
		`{"op":"patch",` + some + `}`:                                          "patch",
		`{"op":"patch","patch":{},` + some + `}`:                               "patch",
		`{"op":"patch","patch":{"payload":1},` + some + `}`:                    "patch.payload",
		`{"op":"patch","patch":{"target":null},` + some + `}`:                  "patch.target.headers",
		`{"op":"patch","patch":{"target":{"headers":{"x":"1"}}},` + some + `}`: "patch.target.headers",
		`{"op":"patch","patch":{"target":{"url":"ftp://x/"}},` + some + `}`:    "patch.target.url",
		`{"op":"patch","patch":{"retry":{"max_attempts":2000}},` + some + `}`:  "patch.retry.max_attempts",
		`{"op":"cancel","per_second":0,` + some + `}`:                          "per_second",
		`{"op":"cancel","per_second":5001,` + some + `}`:                       "per_second",
		`{"op":"cancel","dry_run":1,` + some + `}`:                             "dry_run",
		`{"op":"cancel","op":"fire",` + some + `}`:                             "op",

		`{"op":"pause",` + some + `}`:                                                                    "op",
		`{"op":"cancel","of":"schedules",` + some + `}`:                                                  "op",
		`{"op":"pause","of":"queues",` + some + `}`:                                                      "of",
		`{"op":"pause","of":"schedules"}`:                                                                "filter",
		`{"op":"pause","of":"schedules","filter":{"state":"scheduled"}}`:                                 "filter.state",
		`{"op":"pause","of":"schedules","filter":{"due_before":"2026-11-21T10:00:00Z"}}`:                 "filter.due_before",
		`{"op":"delete","of":"schedules","note":"x",` + some + `}`:                                       "note",
		`{"op":"pause","of":"schedules","note":"` + strings.Repeat("x", 256) + `",` + some + `}`:         "note",
		`{"op":"cancel","note":"x",` + some + `}`:                                                        "note",
		`{"op":"patch","of":"schedules",` + some + `}`:                                                   "patch",
		`{"op":"patch","of":"schedules","patch":{},` + some + `}`:                                        "patch",
		`{"op":"patch","of":"schedules","patch":{"repeat":{}},` + some + `}`:                             "patch",
		`{"op":"patch","of":"schedules","patch":[],` + some + `}`:                                        "patch",
		`{"op":"patch","of":"schedules","patch":{"labels":{"a":"b"}},` + some + `}`:                      "patch.labels",
		`{"op":"patch","of":"schedules","patch":{"id":"x"},` + some + `}`:                                "patch.id",
		`{"op":"patch","of":"schedules","patch":{"next_at":"x"},` + some + `}`:                           "patch.next_at",
		`{"op":"patch","of":"schedules","patch":{"repeat":null},` + some + `}`:                           "patch.repeat",
		`{"op":"patch","of":"schedules","patch":{"repeat":{"cron":["x"]}},` + some + `}`:                 "patch.repeat.cron[0]",
		`{"op":"patch","of":"schedules","patch":{"repeat":{"time_zone":"X/Y"}},` + some + `}`:            "patch.repeat.time_zone",
		`{"op":"patch","of":"schedules","patch":{"repeat":{"calendar":"none"}},` + some + `}`:            "patch.repeat.calendar",
		`{"op":"patch","of":"schedules","patch":{"overlap":"never"},` + some + `}`:                       "patch.overlap",
		`{"op":"patch","of":"schedules","patch":{"task":null},` + some + `}`:                             "patch.task",
		`{"op":"patch","of":"schedules","patch":{"task":{"payload":1}},` + some + `}`:                    "patch.task.payload",
		`{"op":"patch","of":"schedules","patch":{"task":{"target":{"headers":{"x":"1"}}}},` + some + `}`: "patch.task.target.headers",
		`{"op":"patch","of":"schedules","patch":{"task":{"retry":{"max_attempts":0}}},` + some + `}`:     "patch.task.retry.max_attempts",
	} {
		if p := h.call("POST", operations, body); p.StatusCode != 400 || !strings.Contains(p.text, `"field":"`+field+`"`) {
			t.Errorf("%s: %d %s", body, p.StatusCode, p.text)
		}
	}
	if len(h.fake.bulks)+len(h.fake.counted) > 0 {
		t.Errorf("begun: %v, counted: %v", h.fake.bulks, h.fake.counted)
	}
}

// TestBulkOperationsHaveKeys repeats a request with its key, and uses the key for another body and in another
// namespace.
func TestBulkOperationsHaveKeys(t *testing.T) {
	h := newHarness(t)
	const body = `{"op":"cancel","filter":{"queue":"q"}}`
	first := h.call("POST", operations, body, keyHeader, "k")
	id := first.mustStatus(t, 202)["id"]
	assert.Equal(t, first.Header.Get("Location"), operations+"/"+id.(string), "it is at")
	if again := h.call("POST", operations, body, keyHeader, "k"); again.StatusCode != 202 || again.text != first.text {
		t.Errorf("%d %s, after %s", again.StatusCode, again.text, first.text)
	}
	h.call("POST", operations, `{"op":"fire","filter":{"queue":"q"}}`, keyHeader, "k").mustProblem(t, 422, keyHeader)
	if other := h.call("POST", "/v1/namespaces/a/operations", body, keyHeader, "k").mustStatus(t, 202)["id"]; other == id {
		t.Error("namespaces share a key")
	}
	if drain := h.call("POST", "/v1/nodes/n1/drain", "", keyHeader, "k").mustStatus(t, 202)["id"]; drain == id {
		t.Error("a drain has the operation's id")
	}
	assert.Equal(t, len(h.fake.bulks), 2, "begun: %v", h.fake.bulks)
}

func TestBulkOperationsAreDocumented(t *testing.T) {
	d := newDocumented(t)
	d.accepted("POST", operations, `{"op":"cancel","filter":{"queue":"q","label":["a:b"],"state":"ready"},"per_second":3}`)
	d.accepted("POST", operations, `{"op":"move","filter":{"prefix":"p"},"to":"2026-11-21T10:00:00Z"}`)
	d.accepted("POST", operations, `{"op":"move","filter":{"prefix":"p"},"by":"-90m"}`)
	assert.Equal(t, d.fake.operations[2].By, "-1h30m", "moved by")
	d.accepted("POST", operations, `{"op":"patch","all":true,"patch":{"labels":{"a":"b"}}}`)
	for _, body := range []string{
		`{"op":"pause","of":"schedules","filter":{"prefix":"p"},"note":"x"}`,
		`{"op":"resume","of":"schedules","filter":{"queue":"q"}}`, `{"op":"delete","of":"schedules","all":true}`,
		`{"op":"patch","of":"schedules","all":true,"patch":{"overlap":"allow","repeat":{"every":"1h"},"task":{"labels":null}}}`,
	} {
		d.accepted("POST", operations, body)
	}
	d.ok("POST", operations, `{"op":"cancel","all":true,"dry_run":true}`)
	d.ok("POST", operations, `{"op":"cancel","filter":{"queue":"large"},"dry_run":true}`)
	d.conflict("POST", operations, `{"op":"cancel","filter":{"queue":"full"}}`)
	d.badRequest("POST", operations, `{"op":"cancel"}`)
	d.unsupportedType("POST", operations, `{"op":"cancel","all":true}`, "Content-Type", "text/plain")
	d.ok("GET", operations, "")
	d.ok("GET", operations+"/op-0", "")
	d.accepted("DELETE", operations+"/op-0", "")
	d.conflict("DELETE", operations+"/op-0", "")
	for err, status := range map[error]int{task.ErrNotProposed: 503, task.ErrUnknown: 504} {
		d.fake.readErr = err
		d.call(status, "POST", operations, `{"op":"cancel","all":true}`)
		d.call(http.StatusServiceUnavailable, "POST", operations, `{"op":"cancel","all":true,"dry_run":true}`)
	}
}

// TestDryRunBeginsNothing checks the count, also one that was cut short.
func TestDryRunBeginsNothing(t *testing.T) {
	h := newHarness(t)
	for queue, want := range map[string]string{
		"q": `{"matched":3,"complete":true}` + "\n", "large": `{"matched":3,"complete":false}` + "\n",
	} {
		body := `{"op":"cancel","filter":{"queue":"` + queue + `"},"dry_run":true}`
		if a := h.call("POST", "/v1/namespaces/a/operations", body); a.StatusCode != 200 || a.text != want {
			t.Errorf("%d %s", a.StatusCode, a.text)
		}
	}
	if len(h.fake.bulks) > 0 || len(h.fake.counted) != 2 || h.fake.counted[0].Namespace != "a" {
		t.Errorf("begun: %v, counted: %v", h.fake.bulks, h.fake.counted)
	}
}

// TestRolesOfBulkOperations checks who may begin, see and stop an operation on the tasks of namespace a.
func TestRolesOfBulkOperations(t *testing.T) {
	const body = `{"op":"cancel","filter":{"queue":"q"}}`
	for caller, want := range map[string][3]int{ // begin, show, stop
		"operate@a": {202, 200, 202}, "admin@a": {202, 200, 202}, "operate@*": {202, 200, 202},
		"read@a": {403, 200, 403}, "schedule@a": {403, 200, 403}, "operate@b": {404, 404, 404},
		"operate@a queues=q":       {403, 404, 404},
		"operate@a queues=q ids=x": {403, 404, 404},
		"read@a operate@b":         {403, 200, 403},
	} {
		h := newHarness(t, withAccess)
		h.as("operate@a", "POST", operations, body).mustStatus(t, 202)
		got := [3]int{
			h.as(caller, "POST", "/v1/namespaces/a/operations", body).StatusCode,
			h.as(caller, "GET", operations+"/op-0", "").StatusCode,
			h.as(caller, "DELETE", operations+"/op-0", "").StatusCode,
		}
		assert.Equal(t, got, want, "%s", caller)
		assert.Equal(t, len(h.fake.bulks) == 2, want[0] == 202, "%s: begun %v", caller, h.fake.bulks)
		if stopped := h.fake.operations[0].State == "stopped"; stopped != (want[2] == 202) {
			t.Errorf("%s: it is %s", caller, h.fake.operations[0].State)
		}
	}
}

// TestOtherOperationsNeedTheCluster checks that the role in one namespace stops no operation on a node.
func TestOtherOperationsNeedTheCluster(t *testing.T) {
	h := newHarness(t, withAccess)
	h.as("operate@*", "POST", "/v1/nodes/n1/drain", "").mustStatus(t, 202)
	h.as("operate@a", "DELETE", operations+"/op-0", "").mustProblem(t, 404, "")
	h.as("operate@a read@*", "DELETE", operations+"/op-0", "").mustProblem(t, 403, "")
	if slices.ContainsFunc(h.fake.operations, func(op view.Operation) bool { return op.Kind == resumeNode }) {
		t.Errorf("stopped: %v", h.fake.operations)
	}
}

// TestOperationsOfANamespace checks that the calls about operations below a namespace reach those on it and no others.
func TestOperationsOfANamespace(t *testing.T) {
	h := newHarness(t)
	const body = `{"op":"cancel","filter":{"queue":"q"}}`
	ids := map[string]string{}
	for _, namespace := range []string{"a", "b"} {
		ids[namespace] = h.call("POST", "/v1/namespaces/"+namespace+"/operations", body).mustStatus(t, 202)["id"].(string)
	}
	for namespace, id := range ids {
		list := h.call("GET", "/v1/namespaces/"+namespace+"/operations", "").mustStatus(t, 200)["operations"].([]any)
		if len(list) != 1 || list[0].(map[string]any)["id"] != id {
			t.Errorf("%s: %v", namespace, list)
		}
		for other, theirs := range ids {
			want := 404
			if other == namespace {
				want = 200
			}
			h.call("GET", "/v1/namespaces/"+namespace+"/operations/"+theirs, "").mustStatus(t, want)
		}
	}
	all := h.call("GET", "/v1/operations", "").mustStatus(t, 200)["operations"].([]any)
	assert.Equal(t, len(all), 2, "%v", all)
	h.call("GET", "/v1/namespaces/none/operations", "").mustStatus(t, 404)
}
