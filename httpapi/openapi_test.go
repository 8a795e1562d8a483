package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/gorillamux"

	"github.com/belfryhq/belfry/access"
	"github.com/belfryhq/belfry/client/view"
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/httpapi/origin"
	"github.com/belfryhq/belfry/internal/assert"
	"github.com/belfryhq/belfry/internal/contract"
)

func loadDocument(t testing.TB) *openapi3.T {
	t.Helper()
	doc, err := document()
	assert.NoError(t, err)
	return doc
}

// document is the document of all tests, which only read it.
var document = sync.OnceValues(func() (*openapi3.T, error) {
	doc, err := openapi3.NewLoader().LoadFromData(openAPIDocument)
	if err != nil {
		return nil, err
	}
	return doc, doc.Validate(context.Background())
})

func TestRoutesAndDocumentAgree(t *testing.T) {
	var routed, written []string
	for _, r := range routesOf(newHarness(t).server) {
		if shortRoute(r.path) == r.path { // the long paths are described in words
			routed = append(routed, r.method+" "+braced(r.path))
		}
	}
	for path, item := range loadDocument(t).Paths.Map() {
		for method := range item.Operations() {
			written = append(written, method+" "+path)
		}
	}
	slices.Sort(routed)
	slices.Sort(written)
	if !slices.Equal(routed, written) {
		t.Errorf("routed  %v\nwritten %v", routed, written)
	}
}

// TestMembersOfTasksAreDocumented checks that the document and package contract give the same members to each object
// about a task, and that each member of a spec can be read.
func TestMembersOfTasksAreDocumented(t *testing.T) {
	schemas := loadDocument(t).Components.Schemas
	patched := schemas["SchedulePatch"].Value.Properties["task"].Value
	for _, c := range []struct {
		name   string
		schema *openapi3.Schema
		takes  contract.Set
	}{
		{"TaskRequest", schemas["TaskRequest"].Value, contract.PutFields},
		{"TaskPatch", schemas["TaskPatch"].Value, contract.PatchFields},
		{"FollowUp", schemas["FollowUp"].Value, contract.FollowUpObject.Takes},
		{"ScheduledTask", schemas["ScheduledTask"].Value, contract.SpecFields},
		{"the task of a SchedulePatch", patched, contract.SpecFields},
	} {
		var takes []string
		for f := contract.Op; f <= contract.Credit; f++ {
			if c.takes.Has(f) {
				takes = append(takes, f.String())
			}
			follows := f == contract.OnDelivered || f == contract.OnDead // which have no row
			if contract.SpecFields.Has(f) && !follows && specFields[f].read == nil {
				t.Errorf("%s cannot be read", f)
			}
			if contract.SpecFields.Has(f) && schemas["Task"].Value.Properties[f.String()] == nil {
				t.Errorf("no task is answered with %s", f)
			}
		}
		slices.Sort(takes)
		if written := slices.Sorted(maps.Keys(c.schema.Properties)); !slices.Equal(takes, written) {
			t.Errorf("%s takes %v\nwritten %v", c.name, takes, written)
		}
	}
}

// TestForeignCallsAreDocumented checks that every call documents a 403, since any call may come from a forbidden web
// page.
func TestForeignCallsAreDocumented(t *testing.T) {
	for path, item := range loadDocument(t).Paths.Map() {
		for method, operation := range item.Operations() {
			if operation.Responses.Status(http.StatusForbidden) == nil {
				t.Errorf("%s %s documents no 403", method, path)
			}
		}
	}
}

// TestNeedsAreDocumented checks that the table of endpoints and the document ask the same of callers.
func TestNeedsAreDocumented(t *testing.T) {
	scopes := map[reach][]string{anywhere: {"some-namespace"}, wholeCluster: {"all-namespaces"}}
	needed, written := map[string]string{}, map[string]string{}
	for _, e := range newHarness(t).server.endpoints() {
		name := e.method + " " + braced(e.path)
		if e.need == toAll {
			needed[name] = "[]"
			continue
		}
		demanded := append([]string{e.need.role.String()}, scopes[e.need.reach]...)
		if e.need == toCaller {
			demanded = nil
		}
		needed[name] = fmt.Sprint(openapi3.SecurityRequirements{{"key": demanded}})
	}
	for path, item := range loadDocument(t).Paths.Map() {
		for method, operation := range item.Operations() {
			name := method + " " + path
			if operation.Security == nil {
				t.Errorf("%s declares no security", name)
				continue
			}
			written[name] = fmt.Sprint(*operation.Security)
			if asks := len(*operation.Security) > 0; asks != (operation.Responses.Status(http.StatusUnauthorized) != nil) ||
				asks && operation.Responses.Status(http.StatusTooManyRequests) == nil {
				t.Errorf("%s does not document its 401 or 429, or needs none", name)
			}
		}
	}
	if !maps.Equal(needed, written) {
		t.Errorf("the table needs %v\nwritten %v", needed, written)
	}
	if len(needed) < 40 || written["PUT /v1/tasks/{id}"] != "[map[key:[schedule]]]" {
		t.Errorf("%d needs: %v", len(needed), written)
	}
}

// TestEndpointsWithoutNeedsAreRefused checks that the server does not start with a route that any caller could use by
// an omission.
func TestEndpointsWithoutNeedsAreRefused(t *testing.T) {
	for name, table := range map[string][]endpoint{
		"no need":     {{method: "GET", path: "/v1/new"}},
		"no reach":    {{method: "GET", path: "/v1/new", need: need{role: access.Read}}},
		"no role":     {{method: "GET", path: "/v1/new", need: need{reach: wholeCluster}}},
		"open role":   {{method: "GET", path: "/v1/new", need: need{access.Read, open}}},
		"twice there": {{method: "GET", path: "/v1/new", need: toAll}, {method: "GET", path: "/v1/new", need: toAll}},
	} {
		if err := newHarness(t).server.register(table); err == nil || !strings.Contains(err.Error(), "GET /v1/new") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func braced(path string) string {
	return regexp.MustCompile(":([a-z]+)").ReplaceAllString(path, "{$1}")
}

func TestProblemTypesAreDocumented(t *testing.T) {
	types := loadDocument(t).Components.Schemas["Problem"].Value.Properties["type"].Value.Enum
	known := []kind{malformedJSON, invalidField, noDelay, unauthenticated, foreignOrigin, forbidden, tooManyAttempts, unknownRoute, taskNotFound, methodNotAllowed, bodyTimeout,
		wrongState, keyNotFound, namespaceNotFound, scheduleNotFound, queueNotFound, calendarNotFound, calendarInUse, tokenNotFound, queueNotEmpty, queuesFull, leaseNotFound, leaseEnded, nodeNotFound, operationNotFound,
		impossible,
		keyForgotten, eventsGone, conditionFailed, tooLarge, unsupportedMedia, keyReused, overloaded, memoryFull, quotaExceeded, internalError,
		notCommitted, notReady, noRoom, outcomeUnknown}
	if len(types) != len(known) {
		t.Errorf("%d documented, %d known", len(types), len(known))
	}
	for _, k := range known {
		if !slices.Contains(types, any(contract.ProblemPrefix+k.slug)) {
			t.Errorf("%s is not documented", k.slug)
		}
	}
}

// TestBodiesHaveNoDefaults checks that schemas have no default values, which belong in the descriptions. Type
// generators make a field with a default required, even in requests, where the service applies the default to an absent
// field.
func TestBodiesHaveNoDefaults(t *testing.T) {
	doc := loadDocument(t)
	seen := map[*openapi3.Schema]bool{}
	for name, schema := range doc.Components.Schemas {
		withoutDefaults(t, name, schema, seen)
	}
	for path, item := range doc.Paths.Map() {
		for method, operation := range item.Operations() {
			place := method + " " + path
			if operation.RequestBody != nil {
				for _, media := range operation.RequestBody.Value.Content {
					withoutDefaults(t, place, media.Schema, seen)
				}
			}
			for _, response := range operation.Responses.Map() {
				for _, media := range response.Value.Content {
					withoutDefaults(t, place, media.Schema, seen)
				}
			}
		}
	}
	if len(seen) < 100 {
		t.Errorf("%d schemas looked at", len(seen))
	}
}

func withoutDefaults(t *testing.T, place string, ref *openapi3.SchemaRef, seen map[*openapi3.Schema]bool) {
	t.Helper()
	if ref == nil || seen[ref.Value] {
		return
	}
	s := ref.Value
	seen[s] = true
	if s.Default != nil {
		t.Errorf("%s has a default", place)
	}
	withoutDefaults(t, place+"[]", s.Items, seen)
	withoutDefaults(t, place+".*", s.AdditionalProperties.Schema, seen)
	for name, property := range s.Properties {
		withoutDefaults(t, place+"."+name, property, seen)
	}
	for _, parts := range []openapi3.SchemaRefs{s.AllOf, s.AnyOf, s.OneOf} {
		for _, part := range parts {
			withoutDefaults(t, place, part, seen)
		}
	}
}

// documented is a harness that compares every answer with the document.
type documented struct {
	*harness
	doc    *openapi3.T
	router routers.Router
}

func newDocumented(t *testing.T) *documented {
	doc := loadDocument(t)
	router, err := gorillamux.NewRouter(doc)
	assert.NoError(t, err)
	return &documented{newHarness(t), doc, router}
}

// call sends a request and checks status and answer. A request that succeeds must be documented too.
func (d *documented) call(status int, method, path, body string, header ...string) {
	d.t.Helper()
	a := d.harness.call(method, path, body, header...)
	assert.MustEqual(d.t, a.StatusCode, status, "%s %s %s: %s", method, path, body, a.text)
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	if body != "" {
		r.Header.Set("Content-Type", jsonType)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	route, params, err := d.router.FindRoute(r)
	assert.NoError(d.t, err, "%s %s", method, path)
	input := &openapi3filter.RequestValidationInput{Request: r, PathParams: params, Route: route,
		Options: &openapi3filter.Options{IncludeResponseStatus: true, ExcludeRequestBody: header != nil,
			AuthenticationFunc: openapi3filter.NoopAuthenticationFunc}}
	if err := openapi3filter.ValidateRequest(context.Background(), input); err != nil && status < 300 {
		d.t.Errorf("request %s %s %s: %v", method, path, body, err)
	}
	output := &openapi3filter.ResponseValidationInput{RequestValidationInput: input, Status: a.StatusCode,
		Header:  a.Header,
		Options: input.Options}
	output.SetBodyBytes([]byte(a.text))
	output.Options.ExcludeResponseBody = !strings.Contains(a.Header.Get("Content-Type"), "json") || a.Header.Get("Content-Type") == ndjsonType
	if err := openapi3filter.ValidateResponse(context.Background(), output); err != nil {
		d.t.Errorf("answer to %s %s: %v\n%s", method, path, err, a.text)
	}
}

func (d *documented) ok(method, path, body string, header ...string) {
	d.t.Helper()
	d.call(http.StatusOK, method, path, body, header...)
}

func (d *documented) created(method, path, body string, header ...string) {
	d.t.Helper()
	d.call(http.StatusCreated, method, path, body, header...)
}

func (d *documented) accepted(method, path, body string, header ...string) {
	d.t.Helper()
	d.call(http.StatusAccepted, method, path, body, header...)
}

func (d *documented) badRequest(method, path, body string, header ...string) {
	d.t.Helper()
	d.call(http.StatusBadRequest, method, path, body, header...)
}

func (d *documented) notFound(method, path, body string, header ...string) {
	d.t.Helper()
	d.call(http.StatusNotFound, method, path, body, header...)
}

func (d *documented) conflict(method, path, body string, header ...string) {
	d.t.Helper()
	d.call(http.StatusConflict, method, path, body, header...)
}

func (d *documented) unsupportedType(method, path, body string, header ...string) {
	d.t.Helper()
	d.call(http.StatusUnsupportedMediaType, method, path, body, header...)
}

// TestRefusedChangesAreDocumented checks that each call that asks the leader of the control group for a change documents
// the leader's refusal. The leader refuses changes while a node has an older build, for one.
func TestRefusedChangesAreDocumented(t *testing.T) {
	d := newDocumented(t)
	const key = `{"name":"k","grants":[{"role":"admin","namespace":"*"}]}`
	made := d.harness.call("POST", "/v1/keys", key).json(t)["id"].(string)
	d.fake.readErr = &task.ImpossibleError{Reason: "the node n2 has an older build"}
	for _, call := range []struct{ method, path, body string }{
		{"PUT", "/v1/calendars/c", `{"closed":["2026-12-24"]}`}, {"DELETE", "/v1/calendars/c", ""},
		{"PUT", "/v1/queues/q", "{}"}, {"PATCH", "/v1/queues/q", "{}"}, {"DELETE", "/v1/queues/q", ""},
		{"POST", "/v1/queues/q/pause", ""}, {"POST", "/v1/queues/q/resume", ""},
		{"POST", "/v1/cluster/jwt-keys/rotate", `{"overlap":"1d"}`},
		{"POST", "/v1/keys", key}, {"POST", "/v1/keys/" + made + "/rotate", ""}, {"DELETE", "/v1/keys/" + made, ""},
		{"PUT", "/v1/namespaces/c", "{}"}, {"DELETE", "/v1/namespaces/a", ""},
		{"PUT", "/v1/cluster", `{"replication":3}`}, {"POST", "/v1/nodes/n1/drain", ""},
		{"POST", "/v1/nodes/n1/resume", ""}, {"POST", "/v1/nodes/n1/remove", ""}, {"POST", "/v1/nodes/n1/replace", ""},
		{"POST", "/v1/nodes/tokens", ""}, {"DELETE", "/v1/nodes/tokens/x", ""},
		{"POST", "/v1/shards/2/split", ""}, {"POST", "/v1/shards/move", `{"slots":"1","to":2}`},
		{"POST", "/v1/shards/balance", ""}, {"POST", "/v1/operations", `{"op":"cancel","all":true}`},
	} {
		d.conflict(call.method, call.path, call.body)
	}
}

func TestAnswersAreDocumented(t *testing.T) {
	d := newDocumented(t)
	later := "2026-11-21T12:00:00Z"
	d.created("PUT", "/v1/tasks/a", wholeTask)
	d.ok("PUT", "/v1/tasks/a", `{"delay":"1h","payload_base64":"/+8="}`)
	d.ok("GET", "/v1/tasks/a?consistency=stale", "")
	d.ok("PATCH", "/v1/tasks/a", `{"fire_at":"`+later+`","target":null,"payload":"x"}`)
	d.ok("POST", "/v1/tasks/a/touch", `{"delay":"1s"}`)
	d.created("POST", "/v1/tasks/b/touch", `{"or_schedule":{"fire_at":"`+later+`"}}`)
	d.ok("POST", "/v1/tasks/a/fire", "")
	d.created("POST", "/v1/tasks", `{"delay":"1h"}`, keyHeader, "k")
	d.call(http.StatusUnprocessableEntity, "POST", "/v1/tasks", `{"delay":"2h"}`, keyHeader, "k")
	d.ok("GET", "/v1/tasks?include=payload&limit=2&state=ready,dead&label=a:b", "")
	d.ok("GET", "/v1/tasks?limit=1000", "")
	d.conflict("POST", "/v1/tasks/b/fire", d.begun("b"))
	d.conflict("PATCH", "/v1/tasks/b", `{"delay":"1s"}`)
	d.conflict("POST", "/v1/tasks/b/touch", `{"delay":"1s"}`)
	d.ok("DELETE", "/v1/tasks/a", "")
	d.ok("GET", "/v1/tasks/a", "")
	d.created("PUT", "/v1/tasks/a", `{"delay":"1h"}`)
	for _, c := range [][2]string{{"GET", ""}, {"DELETE", ""}, {"PATCH", "{}"}} {
		d.notFound(c[0], "/v1/tasks/none", c[1])
	}
	d.notFound("POST", "/v1/tasks/none/fire", "")
	d.notFound("POST", "/v1/tasks/none/touch", "{}")
	d.badRequest("PUT", "/v1/tasks/a", `{}`)
	d.badRequest("PUT", "/v1/tasks/a", `{`)
	d.badRequest("POST", "/v1/tasks/a/touch", `{"x":1}`)
	d.badRequest("GET", "/v1/tasks?x=1", "")
	d.call(http.StatusPreconditionFailed, "PUT", "/v1/tasks/a", `{"delay":"1h"}`, "If-None-Match", "*")
	d.call(http.StatusPreconditionFailed, "DELETE", "/v1/tasks/a", "", "If-Match", `"77"`)
	d.call(http.StatusRequestEntityTooLarge, "PUT", "/v1/tasks/a", strings.Repeat(" ", 600<<10))
	d.unsupportedType("PUT", "/v1/tasks/a", `delay=1h`, "Content-Type", "application/x-www-form-urlencoded")
	d.unsupportedType("POST", "/v1/batch", `{}`)
	d.ok("POST", "/v1/batch", `{"op":"fire","id":"none"}`, "Content-Type", ndjsonType)
	d.badRequest("GET", "/v1/backup?rate=fast", "")
	d.ok("GET", "/v1/doctor", "")
	d.fake.findings = []view.Finding{{Severity: "warning", Code: "node-away", Summary: "Node b is away.", Do: []string{"belfry"}},
		{Severity: "note", Code: "queue-paused"}}
	for _, path := range []string{"/v1/backup?rate=52428800", "/v1/doctor", "/v1/cluster", "/v1/map", "/healthz", "/readyz",
		origin.KeySetPath, "/v1/wheel?shard=2", "/v1/wheel?shard=9", "/v1/activity?since=1m", "/metrics", "/openapi.yaml"} {
		d.ok("GET", path, "")
	}
}

func TestScheduleAnswersAreDocumented(t *testing.T) {
	d := newDocumented(t)
	const path = "/v1/schedules/s"
	backfill := `{"from":"2026-11-20T00:00:00Z","to":"2026-11-20T03:00:00Z"}`
	d.created("PUT", path, wholeSchedule)
	d.ok("PUT", path, `{"repeat":{"every":"1h"},"task":{"payload_base64":"/+8="}}`)
	d.ok("PATCH", path, `{"repeat":{"cron":["@hourly"],"every":null},"note":null,"misfire":null,"overlap":null,"task":null}`)
	for _, c := range [][2]string{{"/pause", ""}, {"/resume", `{"note":"n"}`}, {"/fire", ""}, {"/skip", "{}"},
		{"/backfill", backfill}} {
		d.ok("POST", path+c[0], c[1])
	}
	d.conflict("POST", path+"/fire", "")
	d.ok("GET", path+"?consistency=stale", "")
	d.ok("GET", path+"/occurrences?next=3&last=100", "")
	d.ok("GET", "/v1/tasks/s@1", "")
	d.ok("GET", "/v1/schedules?include=payload&limit=2&label=a:b&queue=default&prefix=s", "")
	d.call(http.StatusPreconditionFailed, "PUT", path, `{"repeat":{"every":"1h"}}`, "If-None-Match", "*")
	d.badRequest("PUT", path, `{}`)
	d.badRequest("GET", path+"/occurrences?next=101", "")
	d.badRequest("GET", "/v1/schedules?state=ready", "")
	d.unsupportedType("PUT", path, `x=1`, "Content-Type", "text/plain")
	d.ok("DELETE", path, "")
	for _, c := range [][3]string{{"GET", "", ""}, {"PATCH", "", "{}"}, {"DELETE", "", ""}, {"POST", "/pause", ""},
		{"POST", "/resume", ""}, {"POST", "/fire", ""}, {"POST", "/skip", ""}, {"POST", "/backfill", backfill},
		{"GET", "/occurrences", ""}} {
		d.notFound(c[0], path+c[1], c[2])
	}
}

func TestQueueAnswersAreDocumented(t *testing.T) {
	d := newDocumented(t)
	d.notFound("GET", "/v1/queues/q", "")
	d.created("PUT", "/v1/queues/q", `{`+wholePolicy+`,"signing":{"secrets":["`+whsec('a', 32)+`"]}}`)
	d.ok("PUT", "/v1/queues/q", `{"on_dead":{"payload":null}}`) // found by TestEveryRouteKeepsTheContract
	d.ok("PUT", "/v1/queues/q", `{}`)
	d.badRequest("PUT", "/v1/queues/q", `{"paused":1}`)
	d.ok("PATCH", "/v1/queues/q", `{`+wholePolicy+`,"signing":{"secrets":["`+whsec('a', 32)+`"]}}`)
	d.ok("PATCH", "/v1/queues/q", `{"target":null,"retry":{"max_attempts":null},"signing":null,"keep_dead":null}`)
	d.badRequest("PATCH", "/v1/queues/q", `{"paused":1}`)
	d.ok("POST", "/v1/queues/q/pause", "")
	d.ok("POST", "/v1/queues/q/resume", "")
	d.badRequest("POST", "/v1/queues/q/resume", `{"x":1}`)
	d.unsupportedType("PUT", "/v1/queues/q", `x=1`, "Content-Type", "text/plain")
	d.ok("GET", "/v1/queues/q", "")
	d.ok("GET", "/v1/queues/default", "")
	d.ok("GET", "/v1/queues?limit=1", "")
	d.badRequest("GET", "/v1/queues?limit=0", "")
	d.die("q", "x", "y", "z")
	d.conflict("DELETE", "/v1/queues/q", "")
	d.ok("POST", "/v1/queues/q/dead/replay?id=x&id=y", "")
	d.ok("DELETE", "/v1/queues/q/dead?limit=5&prefix=z&label=a:b&due_before=2026-11-21T12:00:00Z", "")
	d.badRequest("DELETE", "/v1/queues/q/dead?limit=0", "")
}

func TestConsumersAnswersAreDocumented(t *testing.T) {
	d := newDocumented(t)
	d.ready("q", "a", "b")
	d.fake.tasks["a"].History = []*fsmpb.Past{{Attempt: 1, Fence: 3, EndedAtMs: 1}, {Attempt: 2, Fence: 4, StartedAtMs: 1,
		EndedAtMs: 2, Node: "n1", Error: "500"}}
	d.badRequest("POST", "/v1/queues/q/lease", `{"max":0}`)
	d.ok("POST", "/v1/queues/q/lease", `{"max":2,"wait":"1s","lease":"1m"}`)
	d.ok("GET", "/v1/tasks/a", "")
	d.ok("POST", "/v1/queues/q/lease", "")
	ack := fmt.Sprintf("%q", testKey.append(nil, receiptOf(d.fake.tasks["a"])))
	d.ok("POST", "/v1/queues/q/settle", `{"ack":[`+ack+`,"torn",{"receipt":`+ack+`}],"nack":[{"receipt":`+ack+`,"delay":"1s","reason":"x"}],`+
		`"extend":[{"receipt":`+ack+`,"lease":"1m"}],"release":[`+ack+`]}`)
	d.badRequest("POST", "/v1/queues/q/settle", `{"ack":[1]}`)
	d.badRequest("POST", "/v1/queues/q/stream?credit=0", "")
	d.unsupportedType("POST", "/v1/queues/q/stream", "{}")
	for err, status := range map[error]int{task.ErrOverloaded: 429, task.ErrNotProposed: 503, errors.New("x"): 500} {
		d.fake.readErr = err
		d.call(status, "PUT", "/v1/queues/q", "{}")
		d.call(status, "POST", "/v1/queues/q/lease", "")
		for _, c := range [][2]string{{"GET", ""}, {"DELETE", ""}, {"DELETE", "/dead"}, {"POST", "/dead/replay"}} {
			d.call(status, c[0], "/v1/queues/q"+c[1], "")
		}
		d.call(status, "GET", "/v1/queues", "")
	}
}

func TestStreamAnswersAreDocumented(t *testing.T) {
	h := newHarness(t, func(c *Config) { c.StreamBeat = time.Millisecond })
	schema := loadDocument(t).Components.Schemas["StreamAnswer"].Value
	s := h.stream(t, h.listen(), "?credit=1")
	h.ready("q", "a")
	s.say(`{"ack":["torn"]}`)
	s.say(`{"credit":0}`)
	for left := map[string]bool{"task": true, "settled": true, "problem": true, "heartbeat": true}; len(left) > 0; {
		s.next()
		var v map[string]any
		assert.NoError(t, json.Unmarshal(s.lines.Bytes(), &v))
		if err := schema.VisitJSON(v); err != nil {
			t.Errorf("%s: %v", s.lines.Text(), err)
		}
		for name := range v {
			delete(left, name)
		}
	}
}

// begun puts the task into the state of a running attempt.
func (d *documented) begun(id string) string {
	d.fake.set(id, fsmpb.State_STATE_FIRING, 1)
	return ""
}

func TestFailuresAreDocumented(t *testing.T) {
	for err, status := range map[error]int{task.ErrOverloaded: 429, task.ErrNotProposed: 503, task.ErrUnknown: 504,
		errors.New("x"): 500, &task.MemoryError{Node: "n1", Limit: "1GiB"}: 429} {
		d := newDocumented(t)
		d.fake.do = func(context.Context, []*fsmpb.Command) []task.Reply { return []task.Reply{{Err: err}} }
		d.fake.readErr, d.fake.ready = err, err
		for _, c := range [][3]string{{"PUT", "/v1/tasks/a", `{"delay":"1s"}`}, {"PATCH", "/v1/tasks/a", "{}"}, {"DELETE",
			"/v1/tasks/a", ""},
			{"POST", "/v1/tasks/a/touch", ""}, {"POST", "/v1/tasks/a/fire", ""}, {"POST", "/v1/tasks", `{"delay":"1s"}`}} {
			d.call(status, c[0], c[1], c[2])
		}
		for _, path := range []string{"/v1/tasks/a", "/v1/tasks", "/v1/cluster", "/v1/backup"} {
			d.call(min(status, 503), "GET", path, "")
		}
		d.call(http.StatusServiceUnavailable, "GET", "/readyz", "")
	}
}

func TestBatchAnswersAreDocumented(t *testing.T) {
	h := newHarness(t)
	schema := loadDocument(t).Components.Schemas["BatchAnswer"].Value
	a := h.call("POST", "/v1/batch", `{"op":"schedule","id":"a","delay":"1h"}
{"op":"cancel","id":"a"}
{"op":"fire","id":"a"}
{"op":"fire","id":"none"}
{"op":"boil","id":"a"}
nonsense
`, "Content-Type", ndjsonType)
	lines := strings.Split(strings.TrimSpace(a.text), "\n")
	if len(lines) != 6 || a.StatusCode != http.StatusOK || a.Header.Get("Content-Type") != ndjsonType {
		t.Fatalf("%d %s", a.StatusCode, a.text)
	}
	for _, text := range lines {
		var v any
		assert.NoError(t, json.Unmarshal([]byte(text), &v))
		assert.Equal(t, schema.VisitJSON(v), nil, "%s", text)
	}
}
