package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/belfryhq/belfry/access"
	"github.com/belfryhq/belfry/audit"
	"github.com/belfryhq/belfry/internal/assert"
)

// auditBook keeps records in memory.
type auditBook struct {
	mu       sync.Mutex
	changes  []audit.Record
	refusals []audit.Record
	query    AuditQuery
	page     *AuditPage
	rooms    int // reserved
	full     int // number of rooms, if it is bounded; 0: it is not
}

func (b *auditBook) Reserve(context.Context) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.full > 0 && b.rooms == b.full {
		return audit.ErrNoRoom
	}
	b.rooms++
	return nil
}

func (b *auditBook) Release() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.rooms--
}

func (b *auditBook) Change(r audit.Record) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.changes = append(b.changes, r)
	b.rooms--
}

func (b *auditBook) Recorder() Recorder { return b }

func (b *auditBook) Refuse(r audit.Record) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.refusals = append(b.refusals, r)
}

func (b *auditBook) Read(_ context.Context, q AuditQuery) (*AuditPage, error) {
	b.query = q
	if b.page == nil {
		return nil, errors.New("broken")
	}
	return b.page, nil
}

// take returns the records since the last call as JSON.
func (b *auditBook) take(t *testing.T) (changes, refusals string) {
	t.Helper()
	text := func(records []audit.Record) string {
		var lines []string
		for _, r := range records {
			line, err := json.Marshal(r)
			assert.NoError(t, err)
			lines = append(lines, string(line))
		}
		return strings.Join(lines, "\n")
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	assert.Equal(t, b.rooms, 0, "rooms are left")
	changes, refusals = text(b.changes), text(b.refusals)
	b.changes, b.refusals = nil, nil
	return changes, refusals
}

// admit knows callers by the text of their credentials.
type admit map[string]*access.Caller

func (a admit) Caller(_ context.Context, c access.Credentials) (*access.Caller, error) {
	if caller := a[c.Authorization]; caller != nil {
		return caller, nil
	}
	if c.Authorization == "too many" {
		return nil, &access.Refusal{Kind: access.TooMany, RetryAfter: time.Second}
	}
	return nil, &access.Refusal{Kind: access.Missing, Detail: "no key"}
}

func callerWith(id string, grants ...access.Grant) *access.Caller {
	return &access.Caller{Kind: access.KindKey, ID: id, Name: "name of " + id, Grants: grants}
}

func newAudited(t *testing.T, change ...func(*Config)) (*harness, *auditBook) {
	t.Helper()
	book := &auditBook{}
	keys := admit{
		"operator":  callerWith("k1", access.Grant{Role: access.Operate, Namespace: access.AllNamespaces}),
		"admin":     callerWith("k2", access.Grant{Role: access.Admin, Namespace: access.AllNamespaces}),
		"reader":    callerWith("k3", access.Grant{Role: access.Read, Namespace: "default"}),
		"scheduler": callerWith("k5", access.Grant{Role: access.Schedule, Namespace: "default", Queues: []string{"mine"}}),
		"queues":    callerWith("k4", access.Grant{Role: access.Operate, Namespace: "default", Queues: []string{"mine"}}),
	}
	audited := func(c *Config) { c.Audit, c.Access = book, keys }
	return newHarness(t, append([]func(*Config){audited}, change...)...), book
}

const canary = "canary-secret-value"

// Changes of operators are recorded with their caller, names and outcome, and without any value.
func TestChangesAreRecorded(t *testing.T) {
	h, book := newAudited(t)
	const policy = `{"max_in_flight":3,"signing":{"secrets":["whsec_Y2FuYXJ5LXNpZ25pbmcta2V5LW9mLTMyLWJ5dGVz"]},` +
		`"target":{"url":"https://shop.example/` + canary + `","headers":{"authorization":"` + canary + `"}}}`
	for _, c := range []struct{ method, path, body, want string }{
		{"PUT", "/v1/queues/q", policy, `"method":"PUT","route":"/v1/queues/{queue}","object":{"namespace":"default",` +
			`"queue":"q"},"fields":["max_in_flight","signing.secrets","target.headers","target.url"],"status":201,` +
			`"outcome":"done"`},
		{"PUT", "/v1/queues/q", `{"` + canary + `":1}`, `"object":{"namespace":"default","queue":"q"},"status":400,` +
			`"problem":"invalid-field","outcome":"failed"`},
		{"POST", "/v1/queues/q/pause", ``, `"route":"/v1/queues/{queue}/pause","object":{"namespace":"default",` +
			`"queue":"q"},"status":200`},
		{"POST", "/v1/queues/q/dead/replay?id=a&limit=1", ``, `"fields":["id","limit"],"status":200`},
		{"POST", "/v1/namespaces/default/queues/q/resume", ``, `"route":"/v1/namespaces/{ns}/queues/{queue}/resume",` +
			`"object":{"namespace":"default","queue":"q"},"status":200`},
		{"POST", "/v1/nodes/n1/drain", `{"preview":true}`, `"object":{"id":"n1"}`},
		{"POST", "/v1/shards/balance", `{}`, `"object":{"operation":"op-`},
	} {
		h.call(c.method, c.path, c.body, "Authorization", "operator", "X-Request-Id", "r-1")
		changes, refusals := book.take(t)
		const caller = `"caller":{"kind":"key","id":"k1","name":"name of k1"},"from":"192.0.2.1"`
		if strings.Count(changes, `"method"`) != 1 || !strings.Contains(changes, c.want) ||
			!strings.Contains(changes, caller) ||
			!strings.Contains(changes, `"request":"r-1"`) || refusals != "" || strings.Contains(changes, canary) {
			t.Errorf("%s %s: %s %s, want %s", c.method, c.path, changes, refusals, c.want)
		}
	}
}

// Reads and calls about tasks are not recorded, also if they fail for another reason than their caller.
func TestOtherCallsAreNotRecorded(t *testing.T) {
	h, book := newAudited(t)
	for _, c := range [][3]string{
		{"GET", "/v1/queues/q", ""}, {"GET", "/v1/tasks/absent", ""}, {"PUT", "/v1/tasks/a", `{"delay":"1h"}`},
		{"PUT", "/v1/tasks/a", `{"nonsense":1}`}, {"DELETE", "/v1/tasks/a", ""}, {"GET", "/healthz", ""}, {"GET", "/x", ""},
	} {
		h.call(c[0], c[1], c[2], "Authorization", "admin")
		changes, refusals := book.take(t)
		assert.Equal(t, changes+refusals, "", "%v: %s %s", c, changes, refusals)
	}
}

// Each refusal because of the caller is recorded, as a refusal only.
func TestRefusalsAreRecorded(t *testing.T) {
	h, book := newAudited(t)
	for _, c := range []struct{ key, method, path, body, want string }{
		{"", "GET", "/v1/tasks/a", "", `"caller":{},"from":"192.0.2.1","method":"GET","route":"/v1/tasks/{id}",` +
			`"status":401,"problem":"unauthenticated"`},
		{"too many", "PUT", "/v1/tasks/a", "{}", `"status":429,"problem":"`},
		{"reader", "PUT", "/v1/tasks/a", `{"delay":"1h"}`, `"id":"k3","name":"name of k3"`},
		{"reader", "PUT", "/v1/queues/q", `{}`, `"object":{"namespace":"default","queue":"q"},"status":403`},
		{"reader", "GET", "/v1/namespaces/other/tasks/a", "", `"object":{"id":"a","namespace":"other"},"status":404,` +
			`"problem":"task-not-found"`},
		{"queues", "POST", "/v1/queues/other/pause", "", `"object":{"namespace":"default","queue":"other"},"status":403`},
		{"reader", "PUT", "/v1/cluster", `{}`, `"route":"/v1/cluster","status":403`},
	} {
		h.call(c.method, c.path, c.body, "Authorization", c.key)
		changes, refusals := book.take(t)
		if strings.Count(refusals, `"method"`) != 1 || !strings.Contains(refusals, c.want) || changes != "" {
			t.Errorf("%s %s: %s %s, want %s", c.method, c.path, changes, refusals, c.want)
		}
	}
	h.call("POST", "/v1/batch", `{"op":"schedule","id":"a","delay":"1h","queue":"other"}`+"\n"+
		`{"op":"nonsense","id":"b"}`, "Authorization", "scheduler", "Content-Type", ndjsonType)
	if _, refusals := book.take(t); strings.Count(refusals, `"route":"/v1/batch"`) != 1 ||
		!strings.Contains(refusals, `"status":403,"problem":"forbidden"`) {
		t.Errorf("a line of a batch: %s", refusals)
	}
	h.call("GET", "/v1/tasks/a", "", "Authorization", "admin", "Origin", "https://evil.example")
	_, refusals := book.take(t)
	assert.Contains(t, refusals, `"status":403,"problem":"foreign-origin"`, "a foreign page")
}

// refusalsTo is a function as the Records of refusals alone.
type refusalsTo func(audit.Record)

func (f refusalsTo) Refuse(r audit.Record) { f(r) }

func (refusalsTo) Recorder() Recorder { return noAudit{} }

// Refusals beside the API are recorded, too: of profiles, and of a node that waits.
func TestRefusalsBesideTheAPIAreRecorded(t *testing.T) {
	var got []audit.Record
	note := refusalsTo(func(r audit.Record) { got = append(got, r) })
	keys := admit{"reader": callerWith("k3", access.Grant{Role: access.Read, Namespace: access.AllNamespaces})}
	waiting := waitingConfig(t, prometheus.NewRegistry())
	waiting.Access, waiting.Records = keys, note
	mux := http.NewServeMux()
	mux.Handle("GET /debug/pprof/", http.NotFoundHandler())
	guarded := Guarded(GuardConfig{
		Handler: mux, Role: access.Operate, Access: keys, Origins: testOrigins(t), Records: note,
		Logger: slog.New(slog.DiscardHandler),
	})
	for _, c := range []struct {
		handler                    http.Handler
		path, key, origin, problem string
		status                     int
		caller                     string
	}{
		{guarded, "/debug/pprof/", "", "", "unauthenticated", 401, ""},
		{guarded, "/debug/pprof/", "reader", "", "forbidden", 403, "k3"},
		{guarded, "none", "reader", "https://evil.example", "foreign-origin", 403, ""},
		{Waiting(waiting), "/metrics", "", "", "unauthenticated", 401, ""},
		{Waiting(waiting), "none", "reader", "https://evil.example", "foreign-origin", 403, ""},
	} {
		got = nil
		r := httptest.NewRequest("GET", "/"+strings.TrimPrefix(c.path, "/"), http.NoBody)
		r.Header.Set("Authorization", c.key)
		if c.origin != "" {
			r.Header.Set("Origin", c.origin)
		}
		c.handler.ServeHTTP(httptest.NewRecorder(), r)
		if len(got) != 1 || got[0].Route != c.path || got[0].Problem != c.problem || got[0].Status != c.status ||
			got[0].Caller.ID != c.caller || got[0].From != "192.0.2.1" {
			t.Errorf("%s: %+v", c.path, got)
		}
	}
	got = nil
	r := httptest.NewRequest("GET", "/metrics", http.NoBody)
	r.Header.Set("Authorization", "reader")
	Waiting(waiting).ServeHTTP(httptest.NewRecorder(), r)
	assert.Equal(t, len(got), 0, "a call that was let in: %+v", got)
}

// The records come as lines, with the cursor in the last one.
func TestReadAudit(t *testing.T) {
	h, book := newAudited(t)
	book.page = &AuditPage{
		Merged: audit.Merged{
			Lines: [][]byte{[]byte(`{"id":"x-1"}`), []byte(`{"id":"x-2"}`)},
			Next:  audit.Cursor{"n1": "x-2"}, More: true, Lost: 3,
		},
		Missing: []AuditMissing{{"n2", "away"}},
	}
	a := h.call("GET", "/v1/audit?limit=2&since=1h", "", "Authorization", "admin")
	want := `{"id":"x-1"}` + "\n" + `{"id":"x-2"}` + "\n" + `{"next_cursor":"` + book.page.Next.String() +
		`","more":true,"lost":3,"missing":[{"node":"n2","error":"away"}]}` + "\n"
	if a.text != want || a.StatusCode != 200 || a.Header.Get("Content-Type") != ndjsonType {
		t.Errorf("%s, want %s", a.text, want)
	}
	if q := book.query; q.Limit != 2 || !q.Since.Equal(testNow.Add(-time.Hour)) || len(q.After) != 0 {
		t.Errorf("%+v", q)
	}
	h.call("GET", "/v1/audit?after="+book.page.Next.String()+"&since=2026-11-21T10:00:00Z", "", "Authorization", "admin")
	if q := book.query; q.Limit != defaultAuditLimit || q.After["n1"] != "x-2" || q.Since.Year() != 2026 {
		t.Errorf("%+v", q)
	}
	for _, query := range []string{"limit=0", "limit=1001", "after=%25", "since=-1h", "since=nonsense", "limits=1"} {
		name, _, _ := strings.Cut(query, "=")
		h.call("GET", "/v1/audit?"+query, "", "Authorization", "admin").mustProblem(t, 400, name)
	}
	h.call("GET", "/v1/audit", "", "Authorization", "operator").mustStatus(t, 403)
	newHarness(t).call("GET", "/v1/audit", "").mustStatus(t, 200)
}

// TestEveryRouteIsRecorded calls each route: every refusal is recorded, and of the calls that are let in those that
// operators and administrators make to change something, whatever their outcome.
func TestEveryRouteIsRecorded(t *testing.T) {
	h, book := newAudited(t)
	changes, refusals := 0, 0
	for _, e := range h.server.endpoints() {
		path := regexp.MustCompile(":[a-z]+").ReplaceAllString(e.path, "a")
		h.call(e.method, path, "")
		changed, refused := book.take(t)
		if (refused == "") != (e.need.reach == open) || changed != "" {
			t.Errorf("%s %s without credentials: %s %s", e.method, e.path, changed, refused)
		}
		refusals += strings.Count(refused, `"status":401`)
		if e.need.role == access.Consume || path == "/v1/events" {
			continue // a call that may wait
		}
		h.call(e.method, path, `{"name":"n","grants":[{"role":"read","namespace":"a"}]}`, "Authorization", "admin")
		changed, refused = book.take(t)
		changes += strings.Count(changed, `"kind":"key","id":"k2"`)
		isChange := (e.need.role == access.Operate || e.need.role == access.Admin) &&
			(e.method != "GET" || path == "/v1/backup")
		if (changed != "") != isChange || refused != "" {
			t.Errorf("%s %s as an administrator: %s %s", e.method, e.path, changed, refused)
		}
	}
	if changes < 20 || refusals < 40 {
		t.Errorf("%d changes and %d refusals were seen", changes, refusals)
	}
}

// The record of a new key has its id, and no part of its text.
func TestNewKeyIsRecorded(t *testing.T) {
	h, book := newAudited(t)
	made := h.call("POST", "/v1/keys", `{"name":"n","grants":[{"role":"read","namespace":"default"}]}`,
		"Authorization", "admin").mustStatus(t, 201)
	changes, _ := book.take(t)
	_, secret, _ := strings.Cut(made["key"].(string), "_"+made["id"].(string)+"_")
	if !strings.Contains(changes, `"object":{"id":"`+made["id"].(string)+`"},"fields":["grants","name"],"status":201`) ||
		len(secret) < 20 || strings.Contains(changes, secret) || strings.Contains(changes, redactedText) {
		t.Errorf("%s", changes)
	}
}

// redactedText stands in records for texts that may be secrets.
const redactedText = "[redacted]"
