package httpapi

import (
	"strings"
	"testing"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/httpapi/origin"
	"github.com/belfryhq/belfry/internal/contract"
)

// TestForeignCalls checks that calls from web pages of another origin are refused on every route and have no effect.
func TestForeignCalls(t *testing.T) {
	h := newHarness(t)
	h.ready("q", "a")
	before := h.state("a")
	seen := len(h.fake.seen)
	paths := strings.NewReplacer(":id", "a", ":queue", "q", ":ns", "a")
	routes := append(routesOf(h.server), route{method: "GET", path: "/nothing"}, route{method: "OPTIONS", path: "/v1/tasks"})
	for _, r := range routes {
		path := paths.Replace(r.path)
		for _, header := range [][2]string{
			{"Origin", "https://evil.example"}, {"Origin", "null"}, {"Sec-Fetch-Site", "cross-site"},
			{"Sec-Fetch-Site", "same-site"},
		} {
			p := h.call(r.method, path, "", header[0], header[1]).mustProblem(t, 403, header[0])
			if p["type"] != contract.ProblemPrefix+"foreign-origin" {
				t.Errorf("%s %s with %v: %v", r.method, path, header, p)
			}
		}
		if path != "/healthz" && path != "/readyz" {
			h.call(r.method, "http://rebound.example"+path, "").mustProblem(t, 403, "Host")
		}
	}
	h.call("GET", "http://rebound.example/healthz", "").mustStatus(t, 200)
	if h.state("a") != before || len(h.fake.seen) != seen || len(h.fake.queues.asked) != 0 || len(h.fake.queries) != 0 {
		t.Errorf("something was done: %v, %v, %v, %v", h.state("a"), h.fake.seen, h.fake.queues.asked, h.fake.queries)
	}
}

func TestCORS(t *testing.T) {
	policy, err := origin.New([]string{"example.com"}, []string{"https://app.example"})
	if err != nil {
		t.Fatal(err)
	}
	h := newHarness(t, func(c *Config) { c.Origins = policy })
	const app = "https://app.example"
	a := h.call("OPTIONS", "/v1/tasks/a", "", "Origin", app, "Access-Control-Request-Method", "PUT",
		"Access-Control-Request-Headers", "content-type,idempotency-key", "Sec-Fetch-Site", "cross-site")
	for name, want := range map[string]string{
		"Access-Control-Allow-Origin": app, "Access-Control-Allow-Methods": "GET, HEAD, POST, PUT, PATCH, DELETE",
		"Access-Control-Allow-Headers": "Authorization, Content-Type, Idempotency-Key, If-Match, If-None-Match, traceparent",
		"Vary":                         "Origin", "Access-Control-Allow-Credentials": "",
	} {
		if got := a.Header.Get(name); got != want {
			t.Errorf("preflight: %s is %q, not %q", name, got, want)
		}
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
	if h.state("a") != fsmpb.State_STATE_SCHEDULED {
		t.Error("the page's task is not there")
	}
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
