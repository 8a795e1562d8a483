package httpapi

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/belfryhq/belfry/access"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/internal/assert"
)

// eachRoute calls walk with each route of openapi.yaml and its scopes.
func eachRoute(t *testing.T, walk func(route string, scopes []string)) {
	t.Helper()
	for path, item := range loadDocument(t).Paths.Map() {
		for method, operation := range item.Operations() {
			var scopes []string
			if len(*operation.Security) > 0 {
				scopes = (*operation.Security)[0]["key"]
			}
			walk(method+" "+regexp.MustCompile(`{([a-z]+)}`).ReplaceAllString(path, ":$1"), scopes)
		}
	}
}

// bothPaths returns the paths of a route with sample names: the short one, and the one below a namespace if the route
// has it.
func bothPaths(route string, scopes []string) (paths []string) {
	_, path, _ := strings.Cut(route, " ")
	path = samplePaths.Replace(path)
	if len(scopes) != 1 && !strings.HasPrefix(path, operationsPath) {
		return []string{path}
	}
	return []string{path, "/v1/namespaces/a" + strings.TrimPrefix(path, "/v1")}
}

// heldKeys are keys in memory, of each of which a test holds a text.
type heldKeys map[string]access.KeyRecord

func (heldKeys) KeysVersion() uint64                      { return 1 }
func (heldKeys) KeysInForce() bool                        { return true }
func (heldKeys) KeyUsed(string)                           {}
func (h heldKeys) Key(id string) (access.KeyRecord, bool) { k, ok := h[id]; return k, ok }

// add makes a key with one text that ends at an instant, and returns that text.
func (h heldKeys) add(grants string, key, text time.Time) string {
	id, secret := access.NewKey()
	h[id] = access.KeyRecord{ID: id, Name: "held", Grants: testCaller(grants).Grants, Expires: key,
		Secrets: []access.KeySecret{{Hash: access.Hash(secret), Expires: text}}}
	return secret
}

// goodTokens are tokens that begin with a word.
type goodTokens struct{}

func (goodTokens) Caller(_ context.Context, token string) (*access.Caller, time.Time, error) {
	grants, good := strings.CutPrefix(token, "good.")
	if !good {
		return nil, time.Time{}, &access.Refusal{Kind: access.Unknown, Detail: "the token is wrong"}
	}
	c := testCaller(grants)
	c.Kind = access.KindToken
	return c, testNow.Add(time.Hour), nil
}

// credentials are what a caller shows, and the grants that they stand for.
type credentials struct {
	name, header, certificate string
	grants                    string // empty: it is refused
}

// heldCredentials returns credentials of all kinds, and the authority that judges them.
func heldCredentials(t *testing.T) ([]credentials, *access.Authority) {
	t.Helper()
	keys, past, future := heldKeys{}, testNow.Add(-time.Second), testNow.Add(time.Hour)
	revoked := keys.add("admin@*", time.Time{}, time.Time{})
	delete(keys, revoked[4:14])
	right := keys.add("schedule@a", future, time.Time{})
	_, wrong := access.NewKey()
	rootText, rolesFile := keys.add("read@a", time.Time{}, time.Time{}), filepath.Join(t.TempDir(), "roles.json")
	root, rootErr := access.NewRootKey(rootText)
	err := os.WriteFile(rolesFile, []byte(`[{"cn":"ops","grants":[{"role":"operate","namespace":"*"}]}]`), 0o600)
	roles, rolesErr := access.LoadCertificateRoles(rolesFile)
	a, accessErr := access.New(access.Config{Source: keys, Root: root, Certificates: roles, Tokens: goodTokens{},
		Now: func() time.Time { return testNow }})
	for _, err := range []error{err, rootErr, rolesErr, accessErr} {
		assert.NoError(t, err)
	}
	return []credentials{
		{"key", right, "", "schedule@a"}, {"key of b", keys.add("admin@b", future, future), "", "admin@b"},
		{"root key", rootText, "", "admin@*"}, {"token", "good.consume@a", "", "consume@a"},
		{"certificate", "", "ops", "operate@*"},
		{"key limited to queues", keys.add("operate@a queues=q", time.Time{}, future), "", "operate@a queues=q"},
		{"no grant", "", "stranger", "none"},
		{"expired key", keys.add("admin@*", past, time.Time{}), "", ""},
		{"expired at this instant", keys.add("admin@*", testNow, future), "", ""},
		{"former text of a rotated key", keys.add("admin@*", future, past), "", ""}, {"revoked key", revoked, "", ""},
		{"foreign key", wrong, "", ""}, {"wrong secret", access.NewSecret(right[4:14]), "", ""},
		{"cut key", right[:len(right)-1], "", ""},
		{"foreign token", "e30.e30.e30", "", ""}, {"wrong key beside a certificate", wrong, "ops", ""},
	}, a
}

// addresses counts the addresses of the callers, each of which may send a hundred wrong credentials a second.
var addresses atomic.Uint32

// show makes a call with a credential, from an address of its own.
func (h *harness) show(c credentials, method, path, body, kind string) answer {
	w, r := recorded(method, path, body)
	if kind != "" {
		r.Header.Set("Content-Type", kind)
	}
	r.RemoteAddr = fmt.Sprintf("10.0.%d.%d:1", addresses.Add(1)>>8, addresses.Load()&255)
	r.Header.Set(keyHeader, "k")
	if c.header != "" {
		r.Header.Set("Authorization", "Bearer "+c.header)
	}
	if c.certificate != "" {
		leaf := &x509.Certificate{Subject: pkix.Name{CommonName: c.certificate}}
		r.TLS = &tls.ConnectionState{VerifiedChains: [][]*x509.Certificate{{leaf}}}
	}
	h.server.ServeHTTP(w, r)
	return read(h.t, w.Result())
}

// TestEveryRouteForEveryCredential makes every call of openapi.yaml with credentials of every kind, as package access
// judges them. Those that are not in force get 401 from every route but the open ones. The others get the answers of a
// caller with their grants.
func TestEveryRouteForEveryCredential(t *testing.T) {
	t.Parallel()
	credentials, authority := heldCredentials(t)
	eachRoute(t, func(route string, scopes []string) {
		for _, path := range bothPaths(route, scopes) {
			for _, c := range credentials {
				showRoute(t, route, path, scopes, c, authority)
			}
		}
	})
}

func showRoute(t *testing.T, route, path string, scopes []string, c credentials, authority *access.Authority) {
	t.Helper()
	method, _, _ := strings.Cut(route, " ")
	sample := sampleCalls[route]
	answerOf := func(a Access) (answer, *harness) {
		h := sampleHarness(t, func(cfg *Config) { cfg.Access = a })
		if strings.HasSuffix(path, "/lease") {
			h.server.close() // it does not wait
		}
		return h.show(c, method, path+sample.query, sample.body, sample.kind), h
	}
	got, h := answerOf(authority)
	switch {
	case scopes == nil && (got.StatusCode == 401 || got.StatusCode == 403):
		t.Errorf("%s: the open route %s: %d", c.name, route, got.StatusCode)
	case scopes == nil:
	case c.grants == "":
		if got.StatusCode != 401 || got.Header.Get("WWW-Authenticate") != "Bearer" || len(h.fake.seen) > 0 {
			t.Errorf("%s: %s %s: %d %s", c.name, method, path, got.StatusCode, got.text)
		}
	case !strings.HasSuffix(path, "/whoami"): // it shows more than the grants
		same := &access.Caller{Kind: access.KindKey, ID: "x", Name: "x"}
		if c.grants != "none" {
			same = testCaller(c.grants)
		}
		want, _ := answerOf(accessFunc(func(access.Credentials) (*access.Caller, error) { return same, nil }))
		a, b := random.ReplaceAllString(got.text, ""), random.ReplaceAllString(want.text, "")
		if got.StatusCode != want.StatusCode || a != b {
			t.Errorf("%s: %s %s: %d %s, not %d %s", c.name, method, path, got.StatusCode, a, want.StatusCode, b)
		}
		if c.grants == "none" && got.StatusCode < 400 {
			t.Errorf("%s: %s %s: %d %s", c.name, method, path, got.StatusCode, got.text)
		}
	}
}

// limitedTable has the status of each call in a namespace for an admin whose grants reach only the queue q, only
// another queue, only ids that begin with t, and only other ids. The calls are about the task t in the queue q.
var limitedTable = map[string][4]int{
	"DELETE /v1/queues/:queue":           {409, 403, 403, 403},
	"DELETE /v1/queues/:queue/dead":      {200, 403, 403, 403},
	"DELETE /v1/tasks/:id":               {200, 404, 200, 404},
	"GET /v1/queues":                     {403, 403, 403, 403},
	"GET /v1/queues/:queue":              {200, 403, 403, 403},
	"GET /v1/tasks":                      {403, 403, 403, 403},
	"GET /v1/tasks/:id":                  {200, 404, 200, 404},
	"GET /v1/tasks/:id/history":          {200, 404, 200, 404},
	"GET /v1/events":                     {403, 403, 403, 403},
	"PATCH /v1/queues/:queue":            {200, 403, 403, 403},
	"PATCH /v1/tasks/:id":                {200, 404, 200, 404},
	"POST /v1/batch":                     {200, 200, 200, 200},
	"POST /v1/preview":                   {200, 200, 200, 200},
	"POST /v1/queues/:queue/dead/replay": {200, 403, 403, 403},
	"POST /v1/operations":                {403, 403, 403, 403},
	"POST /v1/queues/:queue/lease":       {200, 403, 403, 403},
	"POST /v1/queues/:queue/pause":       {200, 403, 403, 403},
	"POST /v1/queues/:queue/resume":      {200, 403, 403, 403},
	"POST /v1/queues/:queue/settle":      {200, 403, 403, 403},
	"POST /v1/queues/:queue/stream":      {200, 403, 403, 403},
	"POST /v1/tasks":                     {403, 403, 201, 403},
	"POST /v1/tasks/:id/fire":            {200, 404, 200, 404},
	"POST /v1/tasks/:id/touch":           {200, 404, 200, 404},
	"PUT /v1/queues/:queue":              {200, 403, 403, 403},
	"PUT /v1/tasks/:id":                  {403, 403, 200, 403},

	"GET /v1/calendars":              {200, 200, 200, 200},
	"GET /v1/calendars/:calendar":    {404, 404, 404, 404},
	"PUT /v1/calendars/:calendar":    {403, 403, 403, 403},
	"DELETE /v1/calendars/:calendar": {403, 403, 403, 403},

	"GET /v1/schedules":                 {403, 403, 403, 403},
	"PUT /v1/schedules/:id":             {403, 403, 200, 403},
	"GET /v1/schedules/:id":             {200, 404, 200, 404},
	"PATCH /v1/schedules/:id":           {200, 404, 200, 404},
	"DELETE /v1/schedules/:id":          {200, 404, 200, 404},
	"POST /v1/schedules/:id/pause":      {200, 404, 200, 404},
	"POST /v1/schedules/:id/resume":     {200, 404, 200, 404},
	"POST /v1/schedules/:id/fire":       {200, 404, 200, 404},
	"POST /v1/schedules/:id/skip":       {200, 404, 200, 404},
	"POST /v1/schedules/:id/backfill":   {200, 404, 200, 404},
	"GET /v1/schedules/:id/occurrences": {200, 404, 200, 404},
}

// TestEveryRouteForLimitedCallers makes every call of openapi.yaml for callers whose grants are limited to queues or
// ids, and compares with limitedTable. A refused call has no effect.
func TestEveryRouteForLimitedCallers(t *testing.T) {
	seen := 0
	eachRoute(t, func(route string, scopes []string) {
		want, known := limitedTable[route]
		if !known && len(scopes) == 1 {
			t.Errorf("%s is not in the table", route)
		}
		seen += map[bool]int{true: 1}[known]
		for _, path := range bothPaths(route, scopes) {
			for i, limit := range []string{"queues=q", "queues=other*", "ids=t*", "ids=other"} {
				got, h := limitedCall(t, route, path, "admin@a "+limit)
				switch {
				case known && got.StatusCode != want[i]:
					t.Errorf("%s for %s: %d, not %d: %s", route, limit, got.StatusCode, want[i], got.text)
				case slices.Contains(scopes, "all-namespaces") && got.StatusCode != 403:
					t.Errorf("%s for %s: %d", route, limit, got.StatusCode)
				case got.StatusCode == 403 || got.StatusCode == 404:
					if len(h.fake.seen) > 0 || len(h.fake.queues.leases) > 0 || len(h.fake.operations) > 0 {
						t.Errorf("%s for %s had an effect", route, limit)
					}
				}
			}
		}
	})
	if seen != len(limitedTable) {
		t.Errorf("the table has %d routes, and %d of them are documented", len(limitedTable), seen)
	}
}

func limitedCall(t *testing.T, route, path, caller string) (answer, *harness) {
	t.Helper()
	method, _, _ := strings.Cut(route, " ")
	sample, header := sampleCalls[route], []string{keyHeader, "k"}
	if sample.kind != "" {
		header = append(header, "Content-Type", sample.kind)
	}
	h := sampleHarness(t, withAccess)
	if strings.HasSuffix(path, "/lease") {
		h.server.close()
	}
	return h.as(caller, method, path+sample.query, sample.body, header...), h
}

// TestOtherMethodsDoNothing calls every path of openapi.yaml with each method that it does not have. All callers get
// 405, or 204 for OPTIONS, with the methods that it has, and nothing happens.
func TestOtherMethodsDoNothing(t *testing.T) {
	methods := []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT", "PROPFIND"}
	known := map[string][]string{} // path → methods
	eachRoute(t, func(route string, scopes []string) {
		method, _, _ := strings.Cut(route, " ")
		for _, path := range bothPaths(route, scopes) {
			known[path] = append(known[path], method)
		}
	})
	h, calls := sampleHarness(t, withAccess), 0
	for path, has := range known {
		if slices.Contains(has, "GET") {
			has = append(has, "HEAD")
		}
		for _, method := range methods {
			if slices.Contains(has, method) {
				continue
			}
			for _, caller := range []string{"", "expired", "read@a", "admin@*"} {
				got, want := h.as(caller, method, path, ""), http.StatusMethodNotAllowed
				calls++
				if method == http.MethodOptions {
					want = http.StatusNoContent
				}
				if got.StatusCode != want || got.Header.Get("Allow") == "" || len(h.fake.seen)+len(h.fake.queues.leases) > 0 {
					t.Errorf("%q: %s %s: %d %v %s", caller, method, path, got.StatusCode, got.Header, got.text)
				}
			}
		}
	}
	if calls < 1000 {
		t.Errorf("%d calls", calls)
	}
}

// TestEveryRouteOfAWaitingNode makes every call of openapi.yaml at a node that waits. Only the metrics and the findings
// are answered, to callers who may read all; the other answers tell only that it waits.
func TestEveryRouteOfAWaitingNode(t *testing.T) {
	eachRoute(t, func(route string, scopes []string) {
		method, _, _ := strings.Cut(route, " ")
		for _, path := range bothPaths(route, scopes) {
			for _, caller := range []string{"", "malformed", "expired", "read@a", "admin@a", "read@*", "admin@*"} {
				want := http.StatusServiceUnavailable
				if path == "/metrics" || path == "/v1/doctor" {
					want, _ = refused(scopes, caller, "")
					want = max(want, 200)
				}
				cfg := waitingConfig(t, prometheus.NewRegistry())
				cfg.Access = testAccess{}
				w, r := recorded(method, path, sampleCalls[route].body)
				if caller != "" {
					r.Header.Set("Authorization", "Bearer "+caller)
				}
				if Waiting(cfg).ServeHTTP(w, r); w.Code != want {
					t.Errorf("%q: %s: %d, not %d: %s", caller, route, w.Code, want, w.Body)
				}
			}
		}
	})
}

func TestJoinTokens(t *testing.T) {
	h := newHarness(t)
	r := h.call("GET", "/v1/nodes/tokens", "").json(t)
	assert.Equal(t, fmt.Sprint(r["tokens"]), "[]", "no tokens: %v", r)
	made := h.call("POST", "/v1/nodes/tokens?valid_for=1.5d", "")
	if made.StatusCode != 201 || made.Header.Get("Cache-Control") != "no-store" {
		t.Errorf("%d %v", made.StatusCode, made.Header)
	}
	for name, want := range map[string]any{
		"token": "belfry-join-secret", "required": true, "id": "kq3v7d2a", "created_at": "2026-11-21T10:00:00Z",
		"expires_at": "2026-11-22T22:00:00Z",
	} {
		assert.Equal(t, made.json(t)[name], want, "%s", name)
	}
	again := h.call("POST", "/v1/nodes/tokens", "{}").json(t)
	assert.Equal(t, again["expires_at"], "2026-11-21T11:00:00Z", "the usual life: %v", again)
	if listed := h.call("GET", "/v1/nodes/tokens", "").text; !strings.Contains(listed, "kq3v7d2a") ||
		strings.Contains(listed, "secret") {
		t.Errorf("listed %v", listed)
	}
}

func TestJoinTokensAreDocumented(t *testing.T) {
	d := newDocumented(t)
	d.created("POST", "/v1/nodes/tokens?valid_for=1h", "")
	d.ok("GET", "/v1/nodes/tokens", "")
	d.call(http.StatusNoContent, "DELETE", "/v1/nodes/tokens/kq3v7d2a", "")
	d.notFound("DELETE", "/v1/nodes/tokens/kq3v7d2a", "")
	d.badRequest("POST", "/v1/nodes/tokens?valid_for=soon", "")
	d.unsupportedType("POST", "/v1/nodes/tokens", "{}", "Content-Type", "text/plain")
	for err, status := range map[error]int{
		task.ErrNotProposed: 503, task.ErrUnknown: 504, &task.FieldError{Field: "tokens", Limit: "100"}: 400,
	} {
		d.fake.readErr = err
		d.call(status, "POST", "/v1/nodes/tokens", "")
		d.call(status, "DELETE", "/v1/nodes/tokens/x", "")
	}
}

func TestLifeOfJoinTokens(t *testing.T) {
	h := newHarness(t)
	for _, life := range []string{"soon", "59s", "31d", "-1h"} {
		p := h.call("POST", "/v1/nodes/tokens?valid_for="+life, "").mustProblem(t, 400, "valid_for")
		assert.Equal(t, p["limit"], "1m to 30d", "%s: %v", life, p)
	}
	h.call("POST", "/v1/nodes/tokens", `{"valid_for":"1h"}`).mustProblem(t, 400, "valid_for")
}
