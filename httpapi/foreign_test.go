package httpapi

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/belfryhq/belfry/access"
	"github.com/belfryhq/belfry/audit"
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/httpapi/origin"
	"github.com/belfryhq/belfry/internal/assert"
	"github.com/belfryhq/belfry/internal/contract"
)

// TestForeignCalls checks that calls from web pages of another origin are refused on every route and have no effect.
func TestForeignCalls(t *testing.T) {
	h := newHarness(t)
	h.ready("q", "a")
	before := h.state("a")
	seen := len(h.fake.seen)
	paths := strings.NewReplacer(":id", "a", ":queue", "q", ":ns", "a")
	routes := append(routesOf(h.server), route{method: "GET", path: "/nothing"},
		route{method: "OPTIONS", path: "/v1/tasks"})
	for _, r := range routes {
		path := paths.Replace(r.path)
		for _, header := range [][2]string{
			{"Origin", "https://evil.example"}, {"Origin", "null"}, {"Sec-Fetch-Site", "cross-site"},
			{"Sec-Fetch-Site", "same-site"},
		} {
			p := h.call(r.method, path, "", header[0], header[1]).mustProblem(t, 403, header[0])
			assert.Equal(t, p["type"], contract.ProblemPrefix+"foreign-origin", "%s %s with %v: %v", r.method, path, header, p)
		}
		if path != "/healthz" && path != "/readyz" && path != origin.KeySetPath {
			h.call(r.method, "http://rebound.example"+path, "").mustProblem(t, 403, "Host")
		}
	}
	h.call("GET", "http://rebound.example/healthz", "").mustStatus(t, 200)
	if h.state("a") != before || len(h.fake.seen) != seen || len(h.fake.queues.leases) != 0 || len(h.fake.queries) != 0 {
		t.Errorf("something was done: %v, %v, %v, %v", h.state("a"), h.fake.seen, h.fake.queues.leases, h.fake.queries)
	}
}

func TestCORS(t *testing.T) {
	policy, err := origin.New([]string{"example.com"}, []string{"https://app.example"})
	assert.NoError(t, err)
	h := newHarness(t, func(c *Config) { c.Origins = policy })
	const app = "https://app.example"
	a := h.call("OPTIONS", "/v1/tasks/a", "", "Origin", app, "Access-Control-Request-Method", "PUT",
		"Access-Control-Request-Headers", "content-type,idempotency-key", "Sec-Fetch-Site", "cross-site")
	for name, want := range map[string]string{
		"Access-Control-Allow-Origin": app, "Access-Control-Allow-Methods": "GET, HEAD, POST, PUT, PATCH, DELETE",
		"Access-Control-Allow-Headers": "Authorization, Content-Type, Idempotency-Key, If-Match, If-None-Match, traceparent",
		"Vary":                         "Origin", "Access-Control-Allow-Credentials": "",
	} {
		assert.Equal(t, a.Header.Get(name), want, "preflight: %s", name)
	}
	if a.StatusCode != 204 || a.text != "" || len(h.fake.seen) != 0 {
		t.Errorf("preflight: %d %s", a.StatusCode, a.text)
	}
	for body, status := range map[string]int{`{"delay":"1h"}`: 201, `{}`: 400} { // refusals are readable too
		a = h.call("PUT", "/v1/tasks/a", body, "Origin", app, "Sec-Fetch-Site", "cross-site")
		if a.StatusCode != status || a.Header.Get("Access-Control-Allow-Origin") != app || a.Header.Get("Vary") != "Origin" ||
			a.Header.Get("Access-Control-Expose-Headers") != "ETag, Location, Retry-After" {
			t.Errorf("%d %v %s", a.StatusCode, a.Header, a.text)
		}
	}
	assert.Equal(t, h.state("a"), fsmpb.State_STATE_SCHEDULED, "the page's task is not there")
	for _, from := range []string{"https://evil.example", "null", "http://app.example"} {
		a := h.call("OPTIONS", "/v1/tasks/a", "", "Origin", from, "Access-Control-Request-Method", "DELETE")
		a.mustProblem(t, 403, "Origin")
		if a.Header.Get("Access-Control-Allow-Origin") != "" || a.Header.Get("Vary") != "Origin" {
			t.Errorf("%s: %v", from, a.Header)
		}
	}
	a = h.call("GET", "/v1/tasks/a", "", "Origin", "http://example.com", "Sec-Fetch-Site", "same-origin")
	if a.StatusCode != 200 || a.Header.Get("Access-Control-Allow-Origin") != "" {
		t.Errorf("own origin: %d %v", a.StatusCode, a.Header)
	}
}

// guardedBy returns a handler of profiles for operators, whose calls are recorded in the book.
func guardedBy(t *testing.T, a Access, book *auditBook, profile http.HandlerFunc) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/debug/pprof/", profile)
	return Guarded(GuardConfig{
		Handler: mux, Role: access.Operate, Access: a, Origins: testOrigins(t), Records: book,
		Logger: slog.New(slog.DiscardHandler),
	})
}

// A call beside the API ends soon after its key was revoked: with the refusal if its answer has not begun, and broken
// off otherwise. While the key cannot be judged, the call goes on.
func TestGuardedCallsEndWithTheirKey(t *testing.T) {
	for first, want := range map[string]int{"": 401, "a part of it": 200} {
		synctest.Test(t, func(t *testing.T) {
			a, book := new(changing), new(auditBook)
			handler := guardedBy(t, a, book, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Disposition", "attachment")
				if first != "" {
					_, err := io.WriteString(w, first)
					assert.Equal(t, err, nil)
				}
				select {
				case <-r.Context().Done():
				case <-time.After(time.Minute):
				}
				w.WriteHeader(http.StatusOK)
				if n, err := io.WriteString(w, "the rest"); n != 0 || err == nil {
					t.Errorf("%d bytes were written after the loss of the right: %v", n, err)
				}
			})
			a.to(testCaller("operate@*"), nil)
			w, ended, cut := httptest.NewRecorder(), make(chan struct{}), false
			go func() {
				defer close(ended)
				defer func() { cut = recover() == http.ErrAbortHandler }()
				handler.ServeHTTP(w, httptest.NewRequest("GET", "/debug/pprof/trace", http.NoBody))
			}()
			synctest.Wait()
			a.to(nil, &access.Refusal{Kind: access.Unavailable})
			time.Sleep(10 * time.Second) // of the bubble's clock
			select {
			case <-ended:
				t.Error("the call ended while its key could not be judged")
			default:
			}
			a.to(nil, errRevoked)
			revoked := time.Now()
			<-ended
			if took := time.Since(revoked); took > soon || cut != (first != "") || w.Code != want {
				t.Errorf("ended after %v with %d, cut: %v", took, w.Code, cut)
			}
			body := w.Body.String()
			if first == "" && (!strings.Contains(body, "the call ends here: the key is wrong, expired or revoked") ||
				w.Header().Get("Content-Disposition") != "") || first != "" && body != first {
				t.Errorf("%v %s", w.Header(), body)
			}
			changes, refusals := book.take(t)
			record := map[int]string{401: `"status":401,"problem":"unauthenticated","outcome":"failed"`,
				200: `"status":200,"outcome":"done"`}[want]
			if strings.Count(changes, record) != 1 || strings.Count(refusals, `"status":401`) != 1 {
				t.Errorf("recorded: %s %s", changes, refusals)
			}
		})
	}
}

// Each call beside the API that is let in is recorded before its first byte, also if its handler panics. Without room
// for the record it is refused.
func TestGuardedCallsAreRecorded(t *testing.T) {
	book := new(auditBook)
	answer := func(http.ResponseWriter) {}
	handler := guardedBy(t, admit{"operator": callerWith("k1", access.Grant{Role: access.Operate, Namespace: "*"})}, book,
		func(w http.ResponseWriter, _ *http.Request) { answer(w) })
	call := func(path string) *watchedWriter {
		w := &watchedWriter{httptest.NewRecorder(), book, -1}
		r := httptest.NewRequest("GET", path, http.NoBody)
		r.Header.Set("Authorization", "operator")
		defer func() { _ = recover() }() // of the handler that panics
		handler.ServeHTTP(w, r)
		return w
	}
	bytes := func(w http.ResponseWriter) {
		_, err := io.WriteString(w, "profile")
		assert.Equal(t, err, nil)
	}
	const operator = `"caller":{"kind":"key","id":"k1","name":"name of k1"},"from":"192.0.2.1","method":"GET",` +
		`"route":"/debug/pprof/"`
	for _, c := range []struct {
		path   string
		answer func(http.ResponseWriter)
		want   string
		seen   int // records before the first byte
	}{
		{"/debug/pprof/heap?debug=1", bytes, `,"object":{"name":"heap"},"status":200,"outcome":"done"`, 1},
		{"/debug/pprof/", bytes, `,"status":200,"outcome":"done"`, 1},
		{"/debug/pprof/a%20b", bytes, `,"status":200,"outcome":"done"`, 1},
		{"/debug/pprof/x", func(w http.ResponseWriter) { http.NotFound(w, nil) }, `,"object":{"name":"x"},"status":404,` +
			`"outcome":"failed"`, 1},
		{"/debug/pprof/x", func(http.ResponseWriter) {}, `,"object":{"name":"x"},"status":200,"outcome":"done"`, -1},
		{"/debug/pprof/x", func(http.ResponseWriter) { panic("x") }, `,"object":{"name":"x"},"status":500,` +
			`"problem":"internal","outcome":"failed"`, -1},
	} {
		answer = c.answer
		w := call(c.path)
		changes, refusals := book.take(t)
		if strings.Count(changes, operator+c.want) != 1 || refusals != "" || w != nil && w.seen != c.seen {
			t.Errorf("%s: %s %s, want %s", c.path, changes, refusals, c.want)
		}
	}
	book.full, book.rooms = 1, 1
	answer = func(http.ResponseWriter) { t.Error("carried out without room for its record") }
	if w := call("/debug/pprof/heap"); w.Code != 503 || !strings.Contains(w.Body.String(), audit.ErrNoRoom.Error()) {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}
