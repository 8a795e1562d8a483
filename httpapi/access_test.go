package httpapi

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/belfryhq/belfry/access"
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/internal/assert"
	"github.com/belfryhq/belfry/internal/contract"
)

// testAccess knows callers by words. A word of a role and a namespace, like "read@a", is a caller with this grant, and
// more words give more grants.
type testAccess struct{}

func (testAccess) Caller(_ context.Context, c access.Credentials) (*access.Caller, error) {
	text := strings.TrimPrefix(c.Authorization, "Bearer ")
	switch text {
	case "":
		return nil, &access.Refusal{Kind: access.Missing, Detail: "the call has no credentials"}
	case "malformed":
		return nil, &access.Refusal{Kind: access.Malformed, Detail: "the credential is no API key"}
	case "foreign", "expired":
		return nil, &access.Refusal{Kind: access.Unknown, Detail: "the key is wrong, expired or revoked"}
	case "flood":
		return nil, &access.Refusal{Kind: access.TooMany, Detail: "too many", RetryAfter: 1500 * time.Millisecond}
	case "early":
		return nil, &access.Refusal{Kind: access.Unavailable, Detail: "the node starts", RetryAfter: time.Second}
	case "broken":
		return nil, context.DeadlineExceeded
	}
	return testCaller(text), nil
}

// testCaller reads grants like "schedule@a queues=orders* ids=o-*,x".
func testCaller(text string) *access.Caller {
	caller := &access.Caller{Kind: access.KindKey, ID: text, Name: "the key " + text}
	for word := range strings.FieldsSeq(text) {
		if kind, names, limited := strings.Cut(word, "="); limited {
			last := &caller.Grants[len(caller.Grants)-1]
			if patterns := strings.Split(names, ","); kind == "queues" {
				last.Queues = patterns
			} else {
				last.IDs = patterns
			}
			continue
		}
		name, namespace, _ := strings.Cut(word, "@")
		role, err := access.ParseRole(name)
		if err != nil {
			panic(err)
		}
		caller.Grants = append(caller.Grants, access.Grant{Role: role, Namespace: namespace})
	}
	return caller
}

// withAccess makes calls need credentials.
func withAccess(c *Config) { c.Access = testAccess{} }

func bearer(caller string) []string {
	if caller == "" {
		return nil
	}
	return []string{"Authorization", "Bearer " + caller}
}

func (h *harness) as(caller, method, path, body string, header ...string) answer {
	h.t.Helper()
	return h.call(method, path, body, append(bearer(caller), header...)...)
}

// sampleCalls are the bodies and queries of calls that succeed. A route that is not here has neither.
var sampleCalls = map[string]struct{ query, body, kind string }{
	"POST /v1/tasks":                {body: `{"delay":"1h"}`},
	"PUT /v1/tasks/:id":             {body: `{"delay":"1h"}`},
	"PATCH /v1/tasks/:id":           {body: `{"delay":"2h"}`},
	"POST /v1/tasks/:id/touch":      {body: `{"delay":"2h"}`},
	"GET /v1/events":                {query: "?follow=false"},
	"POST /v1/batch":                {body: `{"op":"fire","id":"t"}` + "\n", kind: ndjsonType},
	"PUT /v1/queues/:queue":         {body: `{"paused":true}`},
	"PUT /v1/calendars/:calendar":   {body: `{"closed":["--12-25"]}`},
	"PATCH /v1/queues/:queue":       {body: `{"paused":true}`},
	"POST /v1/queues/:queue/settle": {body: `{"ack":["torn"]}`},
	"POST /v1/queues/:queue/stream": {kind: ndjsonType},
	"PUT /v1/cluster":               {body: `{"replication":3}`},
	"POST /v1/dev/advance":          {body: `{"by":"48h"}`},
	"POST /v1/shards/move":          {body: `{"slots":"1-2","to":2}`},
	"DELETE /v1/queues/:queue/dead": {query: "?id=t"},
	"POST /v1/keys":                 {body: `{"name":"n","grants":[{"role":"admin","namespace":"a"}]}`},
	"POST /v1/keys/:id/rotate":      {body: `{"overlap":"1h"}`},
	"PUT /v1/namespaces/:ns":        {body: `{"weight":2}`},
	"POST /v1/operations":           {body: `{"op":"cancel","filter":{"queue":"q"}}`},
	"POST /v1/preview":              {body: `{"repeat":{"cron":["@daily"]},"next":1}`},

	"PUT /v1/schedules/:id":           {body: `{"repeat":{"cron":["@daily"]}}`},
	"PATCH /v1/schedules/:id":         {body: `{"note":"n"}`},
	"POST /v1/schedules/:id/pause":    {body: `{"note":"n"}`},
	"POST /v1/schedules/:id/backfill": {body: `{"from":"2026-11-20T00:00:00Z","to":"2026-11-20T12:00:00Z"}`},
}

// sampleHarness is a harness with a task, a policy and a lease in the default namespace, and the same ones in a.
func sampleHarness(t testing.TB, change ...func(*Config)) *harness {
	h := newHarness(t, change...)
	populate(h, "", "t", "q")
	populate(h, "a", "t", "q")
	h.fake.access.keys = []access.KeyRecord{{ID: "k", Name: "k", Created: testNow, Grants: testCaller("read@a").Grants,
		Secrets: make([]access.KeySecret, 1)}}
	return h
}

// sampler lends sample harnesses: the same one again as long as calls have changed nothing.
type sampler struct {
	t      testing.TB
	change []func(*Config)
	h      *harness
}

// take returns a harness that is as new.
func (s *sampler) take(path string) *harness {
	if s.h == nil {
		s.h = sampleHarness(s.t, s.change...)
	}
	if strings.HasSuffix(path, "/lease") {
		s.h.server.close() // it does not wait
	}
	return s.h
}

// giveBack ends the use of the harness for a call.
func (s *sampler) giveBack(method, path string, a answer) {
	if method != "GET" && a.StatusCode < 400 || s.h.touched() || strings.HasSuffix(path, "/lease") {
		s.h = nil
	}
}

// touched reports whether a call has reached the backend.
func (h *harness) touched() bool {
	f := h.fake
	return len(f.seen)+len(f.queues.leases)+len(f.queries)+len(f.operations)+len(f.tokens) > 0
}

// populate puts a scheduled, a leased and a dead task and a schedule into a queue of a namespace, and gives it a policy.
func populate(h *harness, namespace, id, queue string) {
	for _, state := range []fsmpb.State{fsmpb.State_STATE_SCHEDULED, fsmpb.State_STATE_FIRING, fsmpb.State_STATE_DEAD} {
		name := id
		if state != fsmpb.State_STATE_SCHEDULED {
			name += "-" + stateName(state)
		}
		h.fake.revision++
		h.fake.tasks[placeOf(namespace, name)] = &fsmpb.Task{
			Namespace: namespace, Id: name, State: state, Revision: h.fake.revision, Fence: h.fake.revision,
			FireAtMs: testNow.UnixMilli(), Leased: state == fsmpb.State_STATE_FIRING, LastError: "of " + name,
			Spec: &fsmpb.Spec{Queue: queue, Payload: []byte(`"of ` + name + `"`),
				Labels: []*fsmpb.Label{{Name: "of", Value: name}}},
		}
	}
	h.fake.revision++
	schedule := &fsmpb.Task{
		Namespace: namespace, Id: task.SeriesID(id), State: fsmpb.State_STATE_REPEATING, Revision: h.fake.revision,
		CreatedAtMs: testNow.UnixMilli(), Spec: &fsmpb.Spec{Queue: queue, Payload: []byte(`"of ` + id + `"`)},
		Series: &fsmpb.Series{Repeat: &fsmpb.Repeat{Cron: []string{"@hourly"}}, Note: "of " + id},
	}
	lead(schedule.Series)
	h.fake.tasks[placeOf(namespace, schedule.Id)] = schedule
	policy := &fsmpb.QueuePolicy{Namespace: namespace, Queue: queue, MaxInFlight: 7}
	_, err := h.fake.PutQueue(context.Background(), policy)
	assert.NoError(h.t, err)
}

var samplePaths = strings.NewReplacer("/v1/tasks/:id", "/v1/tasks/t", "/v1/schedules/:id",
	"/v1/schedules/t", "/v1/nodes/tokens/:id", "/v1/nodes/tokens/k",
	"/v1/nodes/:id", "/v1/nodes/one", "/v1/keys/:id", "/v1/keys/k", ":ns", "a", ":shard", "2",
	":queue", "q", ":calendar", "c", ":id", "op-0")

// roleTable says which roles may make the calls that need a role.
var roleTable = map[string][]string{
	"read":     {"read", "schedule", "consume", "operate", "admin"},
	"schedule": {"schedule", "admin"},
	"consume":  {"consume", "admin"},
	"operate":  {"operate", "admin"},
	"admin":    {"admin"},
}

// TestEveryRouteForEveryCaller makes every call of openapi.yaml, on all of its paths, as each kind of caller, and
// compares status and body: of refusals with the words below, of the others with what a local caller gets.
func TestEveryRouteForEveryCaller(t *testing.T) {
	t.Parallel()
	calls := 0
	walks := &walker{&sampler{t: t, change: []func(*Config){withAccess}}, &sampler{t: t}}
	eachRoute(t, func(route string, scopes []string) { calls += walks.route(t, route, scopes) })
	if calls < 1500 {
		t.Errorf("%d calls", calls)
	}
}

// refused describes the expected refusal of a caller, or returns 0.
func refused(scopes []string, caller, namespace string) (status int, detail string) {
	switch caller {
	case "":
		return 401, "the call has no credentials"
	case "malformed":
		return 401, "the credential is no API key"
	case "foreign", "expired":
		return 401, "the key is wrong, expired or revoked"
	case "flood":
		return 429, "too many"
	case "early":
		return 503, "the node starts"
	}
	if len(scopes) == 0 {
		return 0, ""
	}
	role, scope, _ := strings.Cut(caller, "@")
	enough := slices.Contains(roleTable[scopes[0]], role)
	missing := "the call needs the role " + scopes[0]
	switch {
	case slices.Contains(scopes, "all-namespaces"):
		if enough && scope == "*" {
			return 0, ""
		}
		return 403, missing + " for all namespaces"
	case slices.Contains(scopes, "some-namespace"):
		if enough {
			return 0, ""
		}
		return 403, missing + " in some namespace"
	case namespace == "none" || scope != "*" && scope != namespace:
		return 404, noSuchTask
	case enough:
		return 0, ""
	}
	return 403, missing + " in the namespace " + namespace
}

var refusalTitles = map[int]string{
	401: `unauthenticated","title":"The call shows no credentials that are in force."`,
	403: `forbidden","title":"The caller's grants do not reach so far."`,
	404: `task-not-found","title":"There is no such task."`,
	429: `too-many-attempts","title":"Too many wrong credentials came from this address."`,
	503: `not-ready","title":"The node is not ready."`,
}

// walker makes calls to servers that ask for credentials, and to others.
type walker struct{ guarded, open *sampler }

func (w *walker) route(t *testing.T, route string, scopes []string) (calls int) {
	callers := []string{"", "malformed", "foreign", "expired", "flood", "early"}
	for _, namespace := range []string{"a", "b", "*"} {
		for role := range roleTable {
			callers = append(callers, role+"@"+namespace)
		}
	}
	paths := map[string]string{"": ""} // namespace in the path → the path's beginning
	if namespaced := len(scopes) == 1; namespaced {
		for _, name := range []string{"default", "a", "b", "none"} {
			paths[name] = "/namespaces/" + name
		}
	}
	for _, caller := range callers {
		for named, prefix := range paths {
			namespace := named
			if namespace == "" {
				if _, namespace, _ = strings.Cut(caller, "@"); namespace == "*" {
					namespace = "default"
				}
			}
			w.walk(t, route, prefix, scopes, caller, namespace)
			calls++
		}
	}
	return calls
}

func (w *walker) walk(t *testing.T, route, prefix string, scopes []string, caller, namespace string) {
	t.Helper()
	method, path, _ := strings.Cut(route, " ")
	sample := sampleCalls[route]
	path = samplePaths.Replace(path) + sample.query
	if prefix != "" {
		path = "/v1" + prefix + strings.TrimPrefix(path, "/v1")
	}
	header := []string{keyHeader, "k"}
	if sample.kind != "" {
		header = append(header, "Content-Type", sample.kind)
	}
	h := w.guarded.take(path)
	got := h.as(caller, method, path, sample.body, header...)
	w.guarded.giveBack(method, path, got)
	if scopes != nil {
		if status, detail := refused(scopes, caller, namespace); status != 0 {
			mustRefuse(t, h, caller+": "+method+" "+path, got, status, detail)
			return
		}
	}
	if scopes != nil && prefix == "" && len(scopes) == 1 { // a local caller's own namespace is the default one
		path = "/v1/namespaces/" + namespace + strings.TrimPrefix(path, "/v1")
		if route != "POST /v1/operations" { // an operation is at one path only
			got.Header.Set("Location", strings.Replace(got.Header.Get("Location"), "/v1/", "/v1/namespaces/"+namespace+"/", 1))
		}
	}
	if want, ok := ownAnswer(route, caller, namespace); ok {
		if text := random.ReplaceAllString(fmt.Sprint(got.StatusCode, " ", got.text), "$1"); text != want+"\n" {
			t.Errorf("%s: %s %s: %s, want %s", caller, method, path, text, want)
		}
		return
	}
	want := w.open.take(path).call(method, path, sample.body, header...)
	w.open.giveBack(method, path, want)
	sameLocation := got.Header.Get("Location") == want.Header.Get("Location") || want.Header.Get("Location") == ""
	if got.StatusCode != want.StatusCode || got.text != want.text || !sameLocation {
		t.Errorf("%s: %s %s: %d %s, a local caller gets %d %s", caller, method, path, got.StatusCode, got.text,
			want.StatusCode, want.text)
	}
	if slices.Contains([]int{401, 403, 405}, got.StatusCode) || got.StatusCode >= 500 {
		t.Errorf("%s: %s %s: %d %s", caller, method, path, got.StatusCode, got.text)
	}
}

// ownAnswer returns the answers of calls that show each caller only what its grants reach. For the other callers of
// these calls ok is false: they get what a local caller gets.
func ownAnswer(route, caller, namespace string) (want string, ok bool) {
	role, scope, _ := strings.Cut(caller, "@")
	problem := func(slug, title, status string) string {
		return status + ` {"type":"` + contract.ProblemPrefix + slug + `","title":"` + title + `","status":` + status
	}
	noKey := problem("key-not-found", "There is no such key.", "404") + `,"detail":"no key has this id"}`
	switch {
	case route == "GET /v1/whoami":
		return fmt.Sprintf(`200 {"kind":"key","id":"%[1]s","name":"the key %[1]s",`+
			`"grants":[{"role":"%[2]s","namespace":"%[3]s"}],`+
			`"namespace":"%[4]s"}`, caller, role, scope, namespace), true
	case route == "GET /v1/map" && scope != "*":
		return `200 {"cluster_id":"c1","map":"m1","namespace":"` + scope + `","nodes":[{"id":"n1",` +
			`"http_url":"http://127.0.0.1:8400"}],"shards":[{"id":1,"leader":"n1","slots":[{"first":0,"end":4096}]},` +
			`{"id":2,"leader":"","slots":[]}]}`, true
	case route == "GET /v1/namespaces" && scope != "*":
		return `200 {"namespaces":[{"name":"` + scope + `","state":"active"}]}`, true
	case route == "GET /v1/namespaces/:ns" && scope == "b":
		return problem("namespace-not-found", "There is no such namespace.", "404") +
			`,"detail":"no namespace has this name"}`, true
	case route == "POST /v1/keys" && scope == "b":
		return problem("forbidden", "The caller's grants do not reach so far.", "403") +
			`,"detail":"is not one that you administer","field":"grants[0].namespace"}`, true
	case route == "POST /v1/keys":
		return `201 {"id":"","name":"n","grants":[{"role":"admin","namespace":"a"}],` +
			`"created_at":"2026-11-21T10:00:00.00025Z",` +
			`"expires_at":null,"last_used_at":null,"key":""}`, true
	case route == "POST /v1/keys/:id/rotate" && scope != "b":
		return `201 {"id":"k","name":"k","grants":[{"role":"read","namespace":"a"}],` +
			`"created_at":"2026-11-21T10:00:00.00025Z",` +
			`"expires_at":null,"last_used_at":null,"key":""}`, true
	case route == "GET /v1/keys" && scope == "b":
		return `200 {"keys":[]}`, true
	case strings.Contains(route, "/v1/keys/:id") && scope == "b":
		return noKey, true
	}
	return "", false
}

func mustRefuse(t *testing.T, h *harness, call string, got answer, status int, detail string) {
	t.Helper()
	extra := ""
	switch status {
	case 429:
		extra = `,"retry_after":2`
	case 503:
		extra = `,"committed":"no","retry_after":1`
	}
	want := fmt.Sprintf(`{"type":"%s%s,"status":%d,"detail":"%s"%s}`+"\n", contract.ProblemPrefix, refusalTitles[status],
		status, detail, extra)
	if got.StatusCode != status || got.text != want {
		t.Errorf("%s: %d %s\nwant %s", call, got.StatusCode, got.text, want)
	}
	challenge := got.Header.Get("WWW-Authenticate")
	assert.Equal(t, challenge == "Bearer", status == 401, "%s: WWW-Authenticate is %q", call, challenge)
	later := got.Header.Get("Retry-After")
	assert.Equal(t, later != "", status == 429 || status == 503, "%s: Retry-After is %q", call, later)
	if h.touched() {
		t.Errorf("%s had an effect", call)
	}
}

// TestUnknownRoutesNeedNoCredentials checks that paths and methods that no route has are answered so. openapi.yaml,
// which lists the routes, is open to all.
func TestUnknownRoutesNeedNoCredentials(t *testing.T) {
	h := newHarness(t, withAccess)
	h.call("GET", "/v1/namespaces/a/cluster", "").mustProblem(t, 404, "")
	h.call("GET", "/v1/namespaces/a/nothing", "").mustProblem(t, 404, "")
	h.call("POST", "/healthz", "").mustProblem(t, 405, "")
	h.as("broken", "GET", "/v1/tasks", "").mustProblem(t, 503, "")
}

// TestCredentialsOfACall checks that all parts of a call that tell its caller reach Access.
func TestCredentialsOfACall(t *testing.T) {
	var seen access.Credentials
	h := newHarness(t, func(c *Config) {
		c.Access = accessFunc(func(c access.Credentials) (*access.Caller, error) { seen = c; return local, nil })
	})
	h.call("GET", "/v1/tasks", "", "Authorization", "Bearer x")
	if seen.Authorization != "Bearer x" || seen.Addr.String() != "192.0.2.1" || seen.Certificate != nil {
		t.Errorf("%+v", seen)
	}
	w, r := recorded("GET", "/v1/tasks", "")
	r.Header["Authorization"] = []string{"Bearer x", "Bearer y"}
	h.server.ServeHTTP(w, r)
	assert.Equal(t, seen.Authorization, "Bearer x, Bearer y", "two headers make")
}

type accessFunc func(access.Credentials) (*access.Caller, error)

func (f accessFunc) Caller(_ context.Context, c access.Credentials) (*access.Caller, error) {
	return f(c)
}
