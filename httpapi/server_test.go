package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/httpapi/origin"
	"github.com/belfryhq/belfry/internal/assert"
	"github.com/belfryhq/belfry/internal/contract"
	"github.com/belfryhq/belfry/internal/memnet"
)

var testNow = time.Date(2026, 11, 21, 10, 0, 0, 250_000, time.UTC) // 250 µs past the second

// harness is a server over a fake backend, called without a network.
type harness struct {
	t      testing.TB
	fake   *fakeBackend
	server *Server

	network *memnet.Network // of listen and dial; nil: the system's
}

func newHarness(t testing.TB, change ...func(*Config)) *harness {
	t.Helper()
	h := &harness{t: t, fake: newFake()}
	cfg := Config{Backend: h.fake, Now: func() (time.Time, bool) { return testNow, true }, Origins: testOrigins(t), Events: newFakeEvents()}
	cfg.DevClock = advance(func(_ string, by time.Duration) (time.Time, uint64) { return testNow.Add(by), 1 })
	for _, f := range change {
		f(&cfg)
	}
	s, err := New(cfg)
	assert.NoError(t, err)
	h.server = s
	return h
}

// advance is a function as the clock of a node in dev mode.
type advance func(key string, by time.Duration) (now time.Time, begun uint64)

func (f advance) Advance(_ context.Context, key string, by time.Duration) (time.Time, uint64, error) {
	now, begun := f(key, by)
	return now, begun, nil
}

// urlCheck is a function as the Receivers of a server.
type urlCheck func(rawURL string) *task.FieldError

func (f urlCheck) CheckURL(rawURL string) *task.FieldError { return f(rawURL) }

// testOrigins returns a policy with the host names of the tests' requests: httptest's and x.
func testOrigins(t testing.TB) *origin.Policy {
	t.Helper()
	p, err := origin.New([]string{"example.com", "x"}, nil)
	assert.NoError(t, err)
	return p
}

type answer struct {
	*http.Response
	text string
}

// call sends a request; header is a list of names and values. A body that begins with a brace is sent as JSON unless
// header sets another type.
func (h *harness) call(method, path, body string, header ...string) answer {
	h.t.Helper()
	w, r := recorded(method, path, body)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	h.server.ServeHTTP(w, r)
	return read(h.t, w.Result())
}

func recorded(method, path, body string) (*httptest.ResponseRecorder, *http.Request) {
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	if body != "" {
		r.Header.Set("Content-Type", jsonType)
	}
	return httptest.NewRecorder(), r
}

func read(t testing.TB, r *http.Response) answer {
	t.Helper()
	b, err := io.ReadAll(r.Body)
	assert.NoError(t, err)
	return answer{r, string(b)}
}

func (a answer) json(t testing.TB) map[string]any {
	t.Helper()
	var m map[string]any
	assert.NoError(t, json.Unmarshal([]byte(a.text), &m), "%d %s", a.StatusCode, a.text)
	return m
}

// mustProblem checks that the answer is a problem with this status and field, and returns it.
func (a answer) mustProblem(t testing.TB, status int, field string) map[string]any {
	t.Helper()
	if got := a.Header.Get("Content-Type"); got != "application/problem+json" {
		t.Fatalf("content type %q of %d %s", got, a.StatusCode, a.text)
	}
	p := a.json(t)
	if a.StatusCode != status || p["status"] != float64(status) {
		t.Fatalf("status %d, want %d: %s", a.StatusCode, status, a.text)
	}
	if got, _ := p["field"].(string); got != field {
		t.Fatalf("field %q, want %q: %s", got, field, a.text)
	}
	if p["title"] == "" || !strings.HasPrefix(p["type"].(string), contract.ProblemPrefix) {
		t.Fatalf("no title or type: %s", a.text)
	}
	return p
}

func (a answer) mustStatus(t testing.TB, status int) map[string]any {
	t.Helper()
	if a.StatusCode != status {
		t.Fatalf("status %d, want %d: %s", a.StatusCode, status, a.text)
	}
	return a.json(t)
}

func TestConfig(t *testing.T) {
	for name, cfg := range map[string]Config{
		"no backend":       {},
		"negative time":    {Backend: newFake(), Bounds: Bounds{BodyTimeout: -1}},
		"negative numbers": {Backend: newFake(), Bounds: Bounds{BodyBytes: -1}},
	} {
		_, err := New(cfg)
		assert.Error(t, err, "%s: no error", name)
	}
}

func TestRoutingProblems(t *testing.T) {
	h := newHarness(t)
	for _, c := range []struct {
		method, path string
		status       int
		field, allow string
	}{
		{"GET", "/", 404, "", ""},
		{"GET", "/v2/tasks", 404, "", ""},
		{"POST", "/v1/queues/q/boil", 404, "queue", ""},
		{"GET", "/v1/queues/a/b/c", 404, "queue", ""},
		{"GET", "/v1/queues/-a", 400, "queue", ""},
		{"PUT", "/v1/queues/a%2Fb", 400, "queue", ""},
		{"POST", "/v1/queues/%20/lease", 400, "queue", ""},
		{"POST", "/v1/queues/q", 405, "", "PUT"},
		{"GET", "/v1/queues/q/lease", 405, "", "POST"},
		{"GET", "/v1/queues/q/dead", 405, "", "DELETE"},
		{"GET", "/v1/tasks/a/b", 404, "id", ""},
		{"PUT", "/v1/tasks/a/b/c", 404, "id", ""},
		{"GET", "/v1/tasks/a%2Fb", 400, "id", ""},
		{"GET", "/v1/tasks/a%252Fb", 400, "id", ""},
		{"GET", "/v1/tasks/%20", 400, "id", ""},
		{"GET", "/v1/tasks/%2561", 400, "id", ""}, // decoded once, not twice
		{"GET", "/v1/tasks/..", 400, "id", ""},
		{"GET", "/v1/tasks/", 404, "id", ""},
		{"GET", "/v1/tasks/" + strings.Repeat("a", 300), 400, "id", ""},
		{"GET", "/v1/tasks/-a", 400, "id", ""},
		{"POST", "/v1/tasks/a", 405, "", "PUT"},
		{"DELETE", "/v1/tasks", 405, "", "POST"},
		{"PUT", "/v1/tasks/a/touch", 405, "", "POST"},
		{"GET", "/v1/batch", 405, "", "POST"},
		{"BREW", "/healthz", 405, "", "GET"},
	} {
		a := h.call(c.method, c.path, "")
		p := a.mustProblem(t, c.status, c.field)
		if c.field != "" && p["limit"] != nameRule {
			t.Errorf("%s %s: limit %v", c.method, c.path, p["limit"])
		}
		if allow := a.Header.Get("Allow"); !strings.Contains(allow, c.allow) || (c.status == 405) != (allow != "") {
			t.Errorf("%s %s: Allow %q, want %q in it", c.method, c.path, allow, c.allow)
		}
	}
}

// TestNameRule checks that nameRule equals the rule of package task, which refusals of ids quote.
func TestNameRule(t *testing.T) {
	err := task.CheckName("id", "")
	assert.MustEqual(t, err.Limit, nameRule, "the rule of fsm/task")
}

func TestEncodedIDIsDecoded(t *testing.T) {
	h := newHarness(t)
	h.call("PUT", "/v1/tasks/%61%3Ab", `{"delay":"1s"}`).mustStatus(t, 201)
	assert.MustEqual(t, h.fake.last().Id, "a:b", "id")
	assert.MustEqual(t, h.call("GET", "/v1/tasks/a:b", "").mustStatus(t, 200)["id"], "a:b", "id")
}

func TestHead(t *testing.T) {
	server := httptest.NewServer(newHarness(t).server)
	defer server.Close()
	r, err := http.Head(server.URL + "/healthz")
	assert.NoError(t, err)
	if a := read(t, r); a.StatusCode != 200 || a.text != "" {
		t.Fatalf("%d %q", a.StatusCode, a.text)
	}
}

func TestNodeRoutes(t *testing.T) {
	h := newHarness(t)
	h.call("GET", "/healthz", "").mustStatus(t, 200)
	h.call("GET", "/readyz", "").mustStatus(t, 200)
	v := h.call("GET", "/v1/cluster", "").mustStatus(t, 200)
	shards := v["shards"].([]any)
	if replicas := shards[0].(map[string]any)["replicas"]; replicas == nil {
		t.Error("absent replicas are null")
	}
	if slots := shards[1].(map[string]any)["slots"]; slots == nil {
		t.Error("absent slots are null")
	}
	if a := h.call("GET", "/openapi.yaml", ""); a.StatusCode != 200 || a.text != string(openAPIDocument) {
		t.Errorf("openapi.yaml: %d", a.StatusCode)
	}
	h.fake.ready = task.ErrNotProposed
	h.call("GET", "/readyz", "").mustProblem(t, 503, "")
	h.call("GET", "/healthz", "").mustStatus(t, 200)
	h.call("GET", "/v1/cluster?verbose=1", "").mustProblem(t, 400, "verbose")
}

type route struct{ method, path string }

// routesOf returns the routes, sorted.
func routesOf(s *Server) []route {
	var routes []route
	for _, r := range s.echo.Routes() {
		routes = append(routes, route{r.Method, r.Path})
	}
	slices.SortFunc(routes, func(a, b route) int { return strings.Compare(a.path+a.method, b.path+b.method) })
	return routes
}

// TestCallsAreLogged checks that a call is logged at debug level with the caller's id, and that its answer does not
// repeat the id.
func TestCallsAreLogged(t *testing.T) {
	var lines bytes.Buffer
	h := newHarness(t, func(c *Config) {
		c.Logger = slog.New(slog.NewTextHandler(&lines, &slog.HandlerOptions{Level: slog.LevelDebug}))
	})
	a := h.call("GET", "/v1/tasks/a", "", "X-Request-Id", "r-7")
	for _, want := range []string{"msg=call method=GET path=/v1/tasks/a status=404", "id=r-7"} {
		if !strings.Contains(lines.String(), want) {
			t.Errorf("the log lacks %q:\n%s", want, &lines)
		}
	}
	assert.Equal(t, a.Header.Get("X-Request-Id"), "", "the answer has the id")
}

// TestAdvance sets the clock of a node in dev mode ahead. Other nodes have no such call.
func TestAdvance(t *testing.T) {
	var keys []string
	h := newHarness(t, func(c *Config) {
		c.DevClock = advance(func(key string, by time.Duration) (time.Time, uint64) {
			keys = append(keys, key)
			return testNow.Add(by), 3
		})
	})
	for path, status := range map[string]int{"/healthz": 200, "/v1/tasks/none": 404, "/none": 404} {
		if a := h.call("GET", path, ""); a.StatusCode != status || a.Header.Get("belfry-clock") != "2026-11-21T10:00:00.000Z" {
			t.Errorf("%s: %d with %q", path, a.StatusCode, a.Header.Get("belfry-clock"))
		}
	}
	got := h.call("POST", "/v1/dev/advance", `{"by":"2d"}`, keyHeader, "k").mustStatus(t, 200)
	if got["now"] != "2026-11-23T10:00:00.000Z" || got["begun"] != 3.0 || !slices.Equal(keys, []string{"k"}) {
		t.Errorf("%v, %q", got, keys)
	}
	for _, body := range []string{`{}`, `{"by":"0s"}`, `{"by":"-1h"}`, `{"by":"36501d"}`, `{"by":1}`, `{"by":"soon"}`} {
		h.call("POST", "/v1/dev/advance", body).mustProblem(t, 400, "by")
	}
	h.call("POST", "/v1/dev/advance", `{"by":"1h","to":1}`).mustProblem(t, 400, "to")
	assert.Equal(t, len(keys), 1, "the clock moved N times")
	without := newHarness(t, func(c *Config) { c.DevClock = nil })
	if a := without.call("POST", "/v1/dev/advance", `{"by":"2d"}`); a.StatusCode != 404 || a.Header.Get("belfry-clock") != "" {
		t.Errorf("%d with %q", a.StatusCode, a.Header.Get("belfry-clock"))
	}
}

// internals lists words of Go's own packages, which mean nothing to a caller in another language.
var internals = []string{
	"strconv", "parsing", "parse \\\"", "invalid syntax", "unexpected EOF", "0x", "*http", "*url", "json:", "unmarshal",
	"illegal base64", "out of range:", "goroutine", "runtime error", "context deadline", "context canceled", "rpc error",
	"net/url", "net/http", "invalid URL escape", "missing ']'", "bytes.", "time: unknown", "time: invalid", "%!", "<nil>", "nil pointer", "\\x", "\\u", "reflect", "interface {}", "fsmpb", "CODE_",
}

func mustBePlain(t *testing.T, call, answer string) {
	t.Helper()
	for _, word := range internals {
		if strings.Contains(answer, word) {
			t.Errorf("%.200s: the answer has %q: %s", call, word, answer)
		}
	}
	if !utf8.ValidString(answer) || strings.ContainsRune(answer, utf8.RuneError) {
		t.Errorf("%.200s: the answer has half a character: %q", call, answer)
	}
}

// TestErrorsArePlain checks for many faults of callers that the answer contains no internals.
func TestErrorsArePlain(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.call("PUT", "/v1/schedules/s", wholeSchedule).mustStatus(t, 201)
	long := strings.Repeat("定时", 80)
	values := []string{
		`""`, `"x"`, `"1.5.5s"`, `"9999999999999999999s"`, `"P1Y"`, `"PT"`, `"定时"`, `"` + long + `"`, `"a` + long + `"`, `"ab` + long + `"`,
		`null`, `true`, `7`, `-1`, `1e999`, `99999999999999999999999`, `1.5`, `[]`, `{}`, `[7]`, `{"定":"时"}`, `{"url":"http://[::1"}`,
		`{"url":"http://x/%zz"}`, `{"url":"http://x y/"}`, `{"url":"http://x:99999/"}`, `{"url":"://"}`, `{"url":"http://定 时/"}`,
		`{"url":"nats://x/a?b=%zz"}`, `{"url":"redis://x/q?maxlen=ten"}`, `{"url":"http://x","headers":{"定":"1"}}`, `{"secrets":["whsec_!!"]}`,
		`{"delays":["x"]}`, `{"max_attempts":"ten"}`, `{"` + long + `":1}`, `"2026-13-45T99:00:00Z"`, `"` + "\xff" + `"`, `"\ud800"`, `tru`, `"`, `{"a":`,
	}
	names := []string{"id", "queue", "fire_at", "delay", "jitter", "payload", "payload_base64", "content_type", "target", "retry",
		"expires_after", "labels", "no_later_than", "or_schedule", "paused", "max_in_flight", "max_per_second", "batch_max", "keep_done",
		"signing", "max", "wait", "lease", "ack", "nack", "extend", "release", "repeat", "misfire", "misfire_window", "overlap",
		"note", "task", "from", "to", "定时", long}
	for _, name := range names {
		for _, value := range values {
			body := fmt.Sprintf(`{%q:%s}`, name, value)
			for _, call := range []string{"PUT /v1/tasks/a", "PATCH /v1/tasks/a", "POST /v1/tasks/a/touch", "PUT /v1/queues/q",
				"PATCH /v1/queues/q", "POST /v1/queues/q/lease", "POST /v1/queues/q/settle", "PUT /v1/schedules/a",
				"PATCH /v1/schedules/s", "POST /v1/schedules/s/pause", "POST /v1/schedules/s/backfill"} {
				method, path, _ := strings.Cut(call, " ")
				mustBePlain(t, call+" "+body, h.call(method, path, body).text)
			}
			line := fmt.Sprintf(`{"op":"schedule","id":"a","key":"k",%q:%s}`, name, value)
			mustBePlain(t, line, h.call("POST", "/v1/batch", line, "Content-Type", ndjsonType).text)
		}
	}
	for _, path := range []string{
		"/v1/tasks/%E5%AE%9A%E6%97%B6", "/v1/tasks/a%FFb", "/v1/tasks?limit=ten", "/v1/tasks?limit=%E5%AE%9A",
		"/v1/tasks?cursor=%E5%AE%9A", "/v1/tasks?label=%E5%AE%9A", "/v1/tasks?due_before=soon", "/v1/tasks?state=%E5%AE%9A",
		"/v1/tasks?%zz", "/v1/tasks?a;b", "/v1/tasks?%E5%AE%9A=1", "/v1/queues/%E5%AE%9A", "/" + strings.Repeat("%E5%AE%9A", 60),
		"/v1/queues/q/dead?limit=x",
	} {
		mustBePlain(t, path, h.call("GET", path, "").text)
	}
	for _, header := range [][2]string{{"If-Match", "定"}, {"If-None-Match", "定"}, {keyHeader, ""}, {"Content-Type", "定"},
		{"Content-Type", "text/;"}, {"Content-Encoding", "gzip"}} {
		mustBePlain(t, header[0], h.call("PUT", "/v1/tasks/a", `{"delay":"1s"}`, header[0], header[1]).text)
	}
}

// TestFailuresArePlain checks that internal failures are worded without internals, too.
func TestFailuresArePlain(t *testing.T) {
	for _, err := range []error{
		fmt.Errorf("%w: %w", task.ErrNotProposed, context.DeadlineExceeded), fmt.Errorf("%w: %w", task.ErrUnknown, context.Canceled),
		context.DeadlineExceeded, fmt.Errorf("%w: node b: rpc error: code = Unavailable desc = %w", task.ErrNotProposed, io.ErrUnexpectedEOF),
		errors.New("runtime error: 0x7f"),
	} {
		mustBePlain(t, err.Error(), problemOf(err).Error())
		mustBePlain(t, err.Error(), readProblem(err).Error())
	}
}

// TestClipKeepsCharactersWhole checks that a long quotation ends between two characters.
func TestClipKeepsCharactersWhole(t *testing.T) {
	for n := range 4 {
		text := strings.Repeat("a", n) + strings.Repeat("定", 60)
		if got := contract.Clip(text); !utf8.ValidString(got) || len(got) < 120 || !strings.HasSuffix(got, "…") {
			t.Errorf("%q", got)
		}
	}
	if got := contract.Clip(strings.Repeat("\x80", 200)); len(got) > 140 {
		t.Errorf("%d bytes", len(got))
	}
}
