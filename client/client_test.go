package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/belfryhq/belfry/internal/assert"
)

// script answers the requests of a test in order and records them.
type script struct {
	mu      sync.Mutex
	steps   []http.HandlerFunc
	got     []received
	server  *httptest.Server
	waits   []time.Duration
	exhaust http.HandlerFunc // answers requests after the last step; nil: an error
	view    bool             // /v1/map is one of the steps; else it is refused
}

type received struct {
	method, uri, key, body string
	header                 http.Header
}

func (s *script) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/v1/map" && !s.view {
		http.NotFound(w, r)
		return
	}
	var body []byte
	var err error
	if strings.HasSuffix(r.URL.Path, "/stream") { // the body ends after the answer
		err = http.NewResponseController(w).EnableFullDuplex()
	} else {
		body, err = io.ReadAll(r.Body)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	s.got = append(s.got, received{r.Method, r.RequestURI, r.Header.Get("Idempotency-Key"), string(body), r.Header})
	step := s.exhaust
	if n := len(s.got); n <= len(s.steps) {
		step = s.steps[n-1]
	}
	s.mu.Unlock()
	if step == nil {
		http.Error(w, "the script has ended", http.StatusTeapot)
		return
	}
	step(w, r)
}

func (s *script) requests() []received {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.got)
}

// waited returns the pauses that the client has made.
func (s *script) waited() []time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.waits)
}

func answer(status int, body string, header ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i+1 < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

// hangUp breaks the connection without an answer.
func hangUp(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }

// start serves the steps and returns their client, whose waits take no time.
func start(t *testing.T, cfg Config, steps ...http.HandlerFunc) (*Client, *script) {
	t.Helper()
	s := &script{steps: steps}
	s.server = httptest.NewServer(s)
	t.Cleanup(s.server.Close)
	cfg.Addrs = append(cfg.Addrs, s.server.URL)
	c, err := New(cfg)
	assert.NoError(t, err)
	c.conn.wait = func(ctx context.Context, d time.Duration) error {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.waits = append(s.waits, d)
		return ctx.Err()
	}
	return c, s
}

// deadAddr returns an address on which no server listens.
func deadAddr(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	assert.NoError(t, err)
	defer func() { _ = l.Close() }()
	return "http://" + l.Addr().String()
}

func TestScheduleSendsTheTaskAsItIs(t *testing.T) {
	c, s := start(t, Config{SingleCalls: true}, answer(201, `{"id":"a",
		"fire_at":"2026-11-21T10:00:00.000Z","state":"scheduled",
		"payload":{"x": "<&>"},"retry":{"max_backoff":"7d"},"revision":18446744073709551615,"shard":5}`))
	var task Task
	change, err := c.Schedule(t.Context(), Task{
		ID: "a", Queue: "q", Delay: 30 * time.Minute,
		Payload: json.RawMessage("{\"x\": \"<&>\",\n \"n\": 1e2}"),
		Target:  &Target{URL: "http://x/", Headers: map[string]string{"x-a": "1"}, Timeout: 15 * time.Second},
		Retry:   &Retry{MaxAttempts: 3, MinBackoff: time.Second},
		Labels:  map[string]string{"tenant": "acme"},
		State:   StateDead, Attempts: 7, // set by the service: not sent
	}, IfAbsent(), ReturnTask(&task))
	if err != nil || !change.Created || change.Revision != task.Revision {
		t.Fatal(change, err)
	}
	got := s.requests()[0]
	want := "{\"queue\":\"q\",\"delay\":\"30m\",\"payload\":{\"x\": \"<&>\",\n \"n\": 1e2}," +
		`"target":{"url":"http://x/","headers":{"x-a":"1"},"timeout":"15s"},` +
		`"retry":{"max_attempts":3,"min_backoff":"1s"},"labels":{"tenant":"acme"}}`
	if got.method != "PUT" || got.uri != "/v1/tasks/a" || got.body != want {
		t.Errorf("sent %s %s\n%s\nwant\n%s", got.method, got.uri, got.body, want)
	}
	if got.key == "" || got.header.Get("If-None-Match") != "*" || got.header.Get("Content-Type") != jsonType {
		t.Errorf("headers: %v", got.header)
	}
	if task.Revision != 1<<64-1 || task.Shard != 5 || task.State != StateScheduled ||
		task.Retry.MaxBackoff != 7*24*time.Hour {
		t.Errorf("read %+v", task)
	}
	assert.Equal(t, string(task.Payload), `{"x": "<&>"}`, "payload")
}

func TestCancelReturnsTheRevision(t *testing.T) {
	for etag, want := range map[string]uint64{`"8841"`: 8841, `W/"7"`: 7, "": 0, `"x"`: 0} {
		c, _ := start(t, Config{}, answer(200, `{"outcome":"stopped"}`, "ETag", etag))
		task := Task{State: StateDead}
		outcome, err := c.Cancel(t.Context(), "a", ReturnTask(&task))
		if err != nil || outcome != OutcomeStopped ||
			!reflect.DeepEqual(task, Task{ID: "a", Outcome: OutcomeStopped, Revision: want}) {
			t.Errorf("%s: %s, %+v, %v", etag, outcome, task, err)
		}
	}
}

func TestScheduleWithoutIDPosts(t *testing.T) {
	at := time.Date(2026, 11, 21, 10, 0, 0, 1e6, time.FixedZone("", 3600))
	c, s := start(t, Config{}, answer(201, `{"id":"made"}`))
	task, err := c.Schedule(t.Context(), Task{FireAt: at, PayloadBytes: []byte{0, 1}}, WithKey("k"))
	if err != nil || task.ID != "made" {
		t.Fatal(task, err)
	}
	got := s.requests()[0]
	want := `{"fire_at":"2026-11-21T09:00:00.001Z","payload_base64":"AAE="}`
	if got.method != "POST" || got.uri != "/v1/tasks" || got.key != "k" || got.body != want {
		t.Errorf("sent %+v", got)
	}
}

func TestPayloadThatIsNotJSONIsNotSent(t *testing.T) {
	c, s := start(t, Config{})
	_, err := c.Schedule(t.Context(), Task{ID: "a", Payload: json.RawMessage(`{"x":`)})
	if err == nil || len(s.requests()) != 0 || errors.Is(err, ErrUnknown) {
		t.Fatalf("err %v, %d requests", err, len(s.requests()))
	}
}

func TestRepeats(t *testing.T) {
	ok := answer(200, `{"id":"a"}`)
	tests := []struct {
		name  string
		steps []http.HandlerFunc
		calls int
	}{
		{"no leader", []http.HandlerFunc{answer(503, `{"committed":"no"}`), ok}, 2},
		{"unknown outcome", []http.HandlerFunc{answer(504, `{"committed":"unknown"}`), ok}, 2},
		{"a proxy's", []http.HandlerFunc{answer(502, `oops`), ok}, 2},
		{"broken connection", []http.HandlerFunc{hangUp, hangUp, ok}, 3},
		{"torn answer", []http.HandlerFunc{answer(200, `{"id":`, "Content-Length", "50"), ok}, 2},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c, s := start(t, Config{SingleCalls: true}, tt.steps...)
			_, err := c.FireNow(t.Context(), "a")
			assert.NoError(t, err)
			got := s.requests()
			assert.MustEqual(t, len(got), tt.calls, "requests")
			for _, r := range got {
				if r.key == "" || r.key != got[0].key || r.body != got[0].body {
					t.Errorf("the repeat differs: %+v, %+v", got[0], r)
				}
			}
		})
	}
}

// TestRefusalBringsTheTask checks that a refusal has the existing task, in a call of its own and in a line of a batch.
// An unreadable task is left out, and a large one is read whole.
func TestRefusalBringsTheTask(t *testing.T) {
	const there = `{"id":"a","state":"delivered","attempts":1,"revision":7}`
	large := fmt.Sprintf(`{"id":"a","state":"delivered","payload":"%s"}`, strings.Repeat("x", 256<<10))
	for text, want := range map[string]State{there: StateDelivered, large: StateDelivered, `"odd"`: "", `null`: ""} {
		problem := `{"type":"urn:belfry:problem:precondition-failed","title":"The condition does not hold.",` +
			`"status":412,"task":` + text + `}`
		line := `{"id":"a","status":412,"problem":` + problem + "}\n"
		for single, body := range map[bool]string{true: problem, false: line} {
			status := http.StatusOK
			if single {
				status = http.StatusPreconditionFailed
			}
			c, _ := start(t, Config{SingleCalls: single}, answer(status, body))
			_, err := c.Schedule(t.Context(), Task{ID: "a", Delay: time.Hour}, IfAbsent())
			var refusal *Error
			if !errors.Is(err, ErrPrecondition) || !errors.As(err, &refusal) {
				t.Fatalf("single %v: %v", single, err)
			}
			got := State("")
			if refusal.Task != nil {
				got = refusal.Task.State
			}
			if got != want || refusal.Title != "The condition does not hold." {
				t.Errorf("single %v: %q is there, want %q: %v", single, got, want, err)
			}
		}
	}
}

// TestErrorsNameTheTaskReadably checks that an error names the task as the caller did, unless a terminal could not show
// it.
func TestErrorsNameTheTaskReadably(t *testing.T) {
	for id, want := range map[string]string{
		"订单 7": "GET /v1/tasks/订单 7: ", "a\x1b[2J": "GET /v1/tasks/a%1B%5B2J: ", "\xff": "GET /v1/tasks/%FF: ",
	} {
		c, _ := start(t, Config{SingleCalls: true}, answer(400, `{"title":"x"}`))
		if _, err := c.Get(t.Context(), id); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: %v", id, err)
		}
	}
}

// TestErrorTexts checks that the text of an error says the method, the name and the field once each.
func TestErrorTexts(t *testing.T) {
	wide := &Error{Status: 400, Field: "id", Detail: `has " " as character 4`, Limit: "[a-z]"}
	dial := &net.OpError{Op: "dial", Net: "tcp", Addr: &net.TCPAddr{IP: net.IPv4(10, 0, 0, 1), Port: 1}, Err: io.EOF}
	for want, err := range map[string]*callError{
		`schedule "bad id": 400 id has " " as character 4 (limit [a-z])`: {method: "schedule", about: "bad id", last: wide},
		`cancel "": 400 id has " " as character 4 (limit [a-z])`:         {method: "cancel", last: wide},
		`fire a%20b: EOF`: {method: "fire", about: "a%20b", last: io.EOF},
		`GET /v1/tasks/a: 400 delay is negative`: {
			method: "GET", about: "/v1/tasks/a", last: &Error{Status: 400, Field: "delay", Detail: "is negative"},
		},
		`GET /v1/tasks/a (2 attempts): http://n:1: EOF`: {method: "GET", about: "/v1/tasks/a", attempts: 2,
			last: &sentError{&url.Error{Op: "Get", URL: "http://n:1/v1/tasks/a", Err: io.EOF}}},
		`touch a: dial tcp 10.0.0.1:1: EOF`: {method: "touch", about: "a",
			last: &unsentError{&url.Error{Op: "Post", URL: "http://10.0.0.1:1/v1/batch", Err: dial}}},
	} {
		if err.Error() != want {
			t.Errorf("%s, want %s", err, want)
		}
	}
}

func TestRefusalsAreFinal(t *testing.T) {
	for _, refused := range []struct {
		status int
		slug   string
		want   error
	}{
		{404, "task-not-found", ErrNotFound}, {404, "queue-not-found", ErrNotFound}, {404, "lease-not-found", ErrNotFound},
		{404, "token-not-found", ErrNotFound},
		{409, "wrong-state", ErrConflict}, {409, "lease-ended", ErrConflict}, {409, "queue-not-empty", ErrConflict},
		{409, "queues-full", ErrConflict}, {409, "key-forgotten", ErrConflict},
		{412, "precondition-failed", ErrPrecondition}, {422, "key-reused", ErrKeyReused},
	} {
		status, want := refused.status, refused.want
		c, s := start(t, Config{SingleCalls: true}, answer(status, `{"type":"urn:belfry:problem:`+refused.slug+
			`","title":"Not so","detail":"because","field":"delay","limit":16,"state":"firing","attempts":2}`))
		_, err := c.FireNow(t.Context(), "a")
		var refusal *Error
		if !errors.Is(err, want) || !errors.As(err, &refusal) || errors.Is(err, ErrUnknown) {
			t.Fatalf("%d: %v", status, err)
		}
		if refusal.State != StateFiring || refusal.Attempts != 2 || refusal.Limit != "16" || refusal.Field != "delay" {
			t.Errorf("%+v", refusal)
		}
		if want := fmt.Sprintf("POST /v1/tasks/a/fire: %d delay: because (limit 16)", status); err.Error() != want {
			t.Errorf("%q, want %q", err, want)
		}
		assert.Equal(t, len(s.requests()), 1, "%d was sent N times", status)
	}
}

// TestErrorsAreNamedByTypeAlone checks that a status from a proxy, or an unknown type, matches no named error.
func TestErrorsAreNamedByTypeAlone(t *testing.T) {
	for _, body := range []string{
		``, `<html>Not here</html>`, `{"title":"Not Found"}`, `{"type":"task-not-found"}`,
		`{"type":"urn:belfry:problem:unknown-route","status":404}`, `{"type":"urn:belfry:problem:new","status":404}`,
	} {
		c, _ := start(t, Config{SingleCalls: true}, answer(404, body))
		_, err := c.Get(t.Context(), "a")
		var refusal *Error
		if !errors.As(err, &refusal) || refusal.Status != 404 {
			t.Fatalf("%q: %v", body, err)
		}
		for _, named := range []error{ErrNotFound, ErrConflict, ErrPrecondition, ErrKeyReused, ErrOverloaded, ErrNoRoom,
			ErrUnknown} {
			if errors.Is(err, named) {
				t.Errorf("%q is %v", body, named)
			}
		}
	}
}

func TestRetryAfterIsHonoured(t *testing.T) {
	c, s := start(t, Config{SingleCalls: true}, answer(429, `{}`, "Retry-After", "7"), answer(200, `{}`))
	_, err := c.FireNow(t.Context(), "a")
	assert.NoError(t, err)
	assert.EqualSlices(t, s.waited(), []time.Duration{7 * time.Second}, "waited")
}

func TestNextAddress(t *testing.T) {
	addrs, empty := []string{deadAddr(t), deadAddr(t)}, answer(200, `{}`)
	c, s := start(t, Config{Addrs: addrs, SingleCalls: true}, empty, empty)
	for range 2 {
		_, err := c.Cancel(t.Context(), "a")
		assert.NoError(t, err)
	}
	if want := []time.Duration{0, 0}; !slices.Equal(s.waited(), want) {
		t.Errorf("waited %v, want %v: the live node is remembered", s.waited(), want)
	}
}

// newSilent returns a client of the nodes silent:1 and live:1. The live one answers after a while, and the other never.
func newSilent(t *testing.T, cfg Config, after time.Duration, body string) *Client {
	t.Helper()
	cfg.HTTPClient = &http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
		silence := time.After(after)
		if r.URL.Host == "silent:1" {
			silence = nil
		}
		select {
		case <-silence:
			return respond(200, body), nil
		case <-r.Context().Done():
			return nil, r.Context().Err()
		}
	})}
	c, err := New(cfg)
	assert.NoError(t, err)
	return c
}

func TestSilentNodeIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newSilent(t, Config{Addrs: []string{"silent:1", "live:1"}, AttemptTimeout: time.Second, SingleCalls: true}, 0,
			`{"outcome":"stopped"}`)
		defer c.Close()
		began := time.Now()
		outcome, err := c.Cancel(t.Context(), "a")
		if err != nil || outcome != OutcomeStopped || time.Since(began) < time.Second {
			t.Fatal(outcome, err, time.Since(began))
		}
	})
}

func TestCallEndsWithItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		refusing := roundTripper(func(*http.Request) (*http.Response, error) {
			return respond(503, `{"committed":"no"}`), nil
		})
		c, err := New(Config{Addrs: []string{"a:1"}, Timeout: 3 * time.Second, HTTPClient: &http.Client{Transport: refusing}})
		assert.NoError(t, err)
		began := time.Now()
		_, err = c.Get(t.Context(), "a")
		var refusal *Error
		if !errors.As(err, &refusal) || refusal.Status != 503 || !errors.Is(err, context.DeadlineExceeded) ||
			time.Since(began) != 3*time.Second {
			t.Fatalf("%v after %v", err, time.Since(began))
		}
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestMaxAttempts(t *testing.T) {
	c, s := start(t, Config{MaxAttempts: 2})
	s.exhaust = answer(503, `{"committed":"no"}`)
	if _, err := c.Get(t.Context(), "a"); err == nil || len(s.requests()) != 2 {
		t.Fatalf("%v after %d requests", err, len(s.requests()))
	}
}

func TestWhatIsKnownOfAFailedCall(t *testing.T) {
	no, unknown := &Error{Status: 503, Committed: "no"}, &Error{Status: 504, Committed: "unknown"}
	refused, busy := &Error{Status: 412}, &Error{Status: 429}
	dial := &net.OpError{Op: "dial", Err: errors.New("refused")}
	read := &net.OpError{Op: "read", Err: errors.New("reset")}
	tests := []struct {
		name    string
		errs    []error
		unknown bool
	}{
		{"said so", []error{unknown}, true},
		{"said no", []error{no}, false},
		{"no, after unknown", []error{unknown, no}, true},
		{"refused, after unknown", []error{unknown, refused}, false},
		{"busy, after unknown", []error{unknown, busy}, true},
		{"never connected", []error{dial, dial}, false},
		{"connection lost", []error{read}, true},
		{"never connected, after connection lost", []error{read, dial}, true},
		{"any other 5xx", []error{&Error{Status: 500}}, true},
		{"not sendable", []error{&unsendableError{errors.New("x")}}, false},
		{"garbled", []error{&garbledError{errors.New("x")}}, true},
		{"a call inside", []error{&callError{last: dial, unknown: true}}, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var e callError
			for _, err := range tt.errs {
				e.add(err)
			}
			assert.Equal(t, errors.Is(&e, ErrUnknown), tt.unknown, "unknown")
		})
	}
}

// TestSentBeforeItCouldNotConnect loses a kept connection after the call was sent, and the node with it: the
// transport's own repeat cannot connect, but the call may have happened.
func TestSentBeforeItCouldNotConnect(t *testing.T) {
	c, s := start(t, Config{MaxAttempts: 1, SingleCalls: true})
	s.steps = []http.HandlerFunc{answer(200, `{"id":"a"}`), func(w http.ResponseWriter, _ *http.Request) {
		assert.Equal(t, s.server.Listener.Close(), nil)
		conn, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		assert.Equal(t, conn.Close(), nil)
	}}
	_, err := c.Schedule(t.Context(), Task{ID: "a"})
	assert.NoError(t, err)
	if _, err := c.Schedule(t.Context(), Task{ID: "a"}); !errors.Is(err, ErrUnknown) || len(s.requests()) != 2 {
		t.Fatalf("%v, of %d requests", err, len(s.requests()))
	}
}

// A call whose time ends while it connects has certainly not happened.
func TestTimeEndsBeforeItConnects(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		cancel()
		<-ctx.Done()
		return nil, ctx.Err()
	}
	c, _ := start(t, Config{SingleCalls: true, HTTPClient: &http.Client{Transport: &http.Transport{DialContext: dial}}})
	if _, err := c.Schedule(ctx, Task{ID: "a"}); !errors.Is(err, context.Canceled) || errors.Is(err, ErrUnknown) {
		t.Errorf("%v", err)
	}
}

// TestSentBeforeItWasRefused checks a call that net/http sent twice by itself. According to the second answer nothing
// was committed, but the first sending may have been.
func TestSentBeforeItWasRefused(t *testing.T) {
	for status, unknown := range map[int]bool{503: true, 429: true, 404: false} {
		c, s := start(t, Config{MaxAttempts: 1, SingleCalls: true},
			answer(200, `{"id":"a"}`), hangUp, answer(status, `{"committed":"no"}`))
		if _, err := c.FireNow(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		_, err := c.FireNow(t.Context(), "a")
		var refusal *Error
		if len(s.requests()) != 3 || !errors.As(err, &refusal) || errors.Is(err, ErrUnknown) != unknown {
			t.Errorf("%d: %v, of %d requests", status, err, len(s.requests()))
		}
	}
}

func TestListWalksPages(t *testing.T) {
	c, s := start(t, Config{},
		answer(200, `{"tasks":[{"id":"a"},{"id":"b"}],"next_cursor":"one"}`),
		answer(200, `{"tasks":[],"next_cursor":"two"}`),
		answer(200, `{"tasks":[{"id":"c"}],"next_cursor":null}`))
	filter := Filter{
		States: []State{StateScheduled, StateDead}, Labels: map[string]string{"k": "v"}, Order: ByDue, PageSize: 2,
	}
	var ids []string
	for task, err := range c.List(t.Context(), filter) {
		assert.NoError(t, err)
		ids = append(ids, task.ID)
	}
	assert.EqualSlices(t, ids, []string{"a", "b", "c"}, "listed")
	want := "/v1/tasks?cursor=two&label=k%3Av&limit=2&order=due&state=scheduled&state=dead"
	assert.Equal(t, s.requests()[2].uri, want, "asked")
}

func TestListEndsWithItsError(t *testing.T) {
	c, _ := start(t, Config{},
		answer(200, `{"tasks":[{"id":"a"}],"next_cursor":"one"}`), answer(400, `{"field":"cursor"}`))
	var seen []string
	for task, err := range c.List(t.Context(), Filter{}) {
		if err != nil {
			seen = append(seen, "error")
			continue
		}
		seen = append(seen, task.ID)
	}
	assert.Equal(t, fmt.Sprint(seen), "[a error]", "saw")
}

func TestClusterView(t *testing.T) {
	c, s := start(t, Config{}, answer(200, `{"cluster_id":"c","nodes":[{"id":"n1","name":"node-1","alive":true,
		"clock_offset_ms":-0.5}],
		"control":{"leader":"n1","term":2,"voters":["n1"]},
		"shards":[{"id":3,"leader":"n1","term":7,"replicas":[{"node":"n1","applied":9}],"tasks":4,"step":"join"}]}`))
	s.view = true
	view, err := c.Cluster(t.Context())
	if err != nil || view.Node("n1").Name != "node-1" || view.Node("n2") != nil || view.Shards[0].Term != 7 {
		t.Fatal(view, err)
	}
	if view.Control.Leader != "n1" || len(view.Control.Voters) != 1 || view.Shards[0].Step != "join" {
		t.Errorf("the control group %+v, shard %+v", view.Control, view.Shards[0])
	}
}

// TestOperationCalls checks the request of each operation, and reads its answer.
// TestBulkOperationIsRead reads an operation, counts one in a namespace, and writes the operation again.
func TestBulkOperationIsRead(t *testing.T) {
	const text = `{"id":"op-1","kind":"bulk","namespace":"shop","state":"done","began_at":"2026-11-21T10:00:00.000Z",` +
		`"ended_at":null,"total":7,"done":7,"percent":100,"bytes_left":0,"bytes_per_second":0,"tasks_copied":0,"waits":[],` +
		`"op":"cancel","filter":{"queue":"q","label":["a:b:c"],"state":["ready"],"due_before":"2026-11-21T10:00:00.000Z"},` +
		`"per_second":3,"matched":7,"outcomes":{"cancelled":6,"gone":1}}`
	c, _ := start(t, Config{}, answer(200, text))
	op, err := c.Operation(t.Context(), "op-1")
	if err != nil || op.Kind != Bulk || op.Filter.Labels[0] != "a:b:c" || op.Outcomes["gone"] != 1 || *op.Matched != 7 {
		t.Fatalf("%+v, %v", op, err)
	}
	if written, err := json.Marshal(op); err != nil || string(written) != text {
		t.Errorf("%s, %v\nwant %s", written, err, text)
	}
	c, s := start(t, Config{Namespace: "shop"}, answer(200, `{"matched":5,"complete":false}`))
	s.view = true
	matched, complete, err := c.CountBulk(t.Context(), BulkRequest{Op: BulkFire, Filter: BulkFilter{Queue: "q"}})
	if matched != 5 || complete || err != nil {
		t.Errorf("%d, %v, %v", matched, complete, err)
	}
	got := s.got[0]
	assert.Equal(t, got.uri, "/v1/namespaces/shop/operations", "counted at %+v", got)
}

func TestOperationCalls(t *testing.T) {
	running := answer(202, `{"id":"op-1","kind":"drain","node":"n1","state":"running","total":4,"done":1,"percent":25,
		"waits":["slowly"],"began_at":"2026-11-21T10:00:00.000Z","ended_at":null}`)
	begin := func(r OperationRequest) func(*Client) (*Operation, error) {
		return func(c *Client) (*Operation, error) { return c.Begin(t.Context(), r) }
	}
	for _, test := range []struct {
		call func(*Client) (*Operation, error)
		want string
	}{
		{begin(OperationRequest{Kind: Drain, Node: "n 1"}), "POST /v1/nodes/n%201/drain {}"},
		{begin(OperationRequest{Kind: Rest, Node: "n1"}), `POST /v1/nodes/n1/drain {"leaders":true}`},
		{begin(OperationRequest{Kind: Resume, Node: "n1"}), "POST /v1/nodes/n1/resume {}"},
		{begin(OperationRequest{Kind: Remove, Node: "n1"}), "POST /v1/nodes/n1/remove {}"},
		{begin(OperationRequest{Kind: Replace, Node: "n1"}), "POST /v1/nodes/n1/replace {}"},
		{begin(OperationRequest{Kind: Replication, Replication: 5}), `PUT /v1/cluster {"replication":5}`},
		{begin(OperationRequest{Kind: Split, Shard: 3}), "POST /v1/shards/3/split {}"},
		{begin(OperationRequest{Kind: MoveSlots, Slots: "0-511", To: 2}), `POST /v1/shards/move {"slots":"0-511","to":2}`},
		{begin(OperationRequest{Kind: Balance, To: 12}), `POST /v1/shards/balance {"to":12}`},
		{begin(OperationRequest{Kind: Balance}), "POST /v1/shards/balance {}"},
		{func(c *Client) (*Operation, error) {
			return c.BeginBulk(t.Context(), BulkRequest{Op: BulkCancel, PerSecond: 7, Filter: BulkFilter{
				Queue: "q", Prefix: "p", Labels: map[string]string{"b": "c:d", "a": ""}, States: []State{StateReady},
				DueAfter: time.Unix(0, 0).UTC(),
			}})
		}, `POST /v1/operations {"filter":{"queue":"q","prefix":"p","label":["a:","b:c:d"],"state":["ready"],` +
			`"due_after":"1970-01-01T00:00:00.000Z"},"op":"cancel","per_second":7}`},
		{func(c *Client) (*Operation, error) {
			return c.BeginBulk(t.Context(), BulkRequest{Op: BulkMove, All: true, By: -90 * time.Minute})
		}, `POST /v1/operations {"all":true,"by":"-1h30m","filter":{},"op":"move"}`},
		{func(c *Client) (*Operation, error) {
			return c.BeginBulk(t.Context(), BulkRequest{Op: BulkPatch, All: true, Patch: []byte(`{"labels":null}`)})
		}, `POST /v1/operations {"all":true,"filter":{},"op":"patch","patch":{"labels":null}}`},
		{func(c *Client) (*Operation, error) { return c.StopOperation(t.Context(), "op-1") },
			"DELETE /v1/operations/op-1 "},
		{func(c *Client) (*Operation, error) { return c.Operation(t.Context(), "op-1") }, "GET /v1/operations/op-1 "},
	} {
		c, s := start(t, Config{}, running)
		s.view = true
		op, err := test.call(c)
		if err != nil || op.ID != "op-1" || op.State != OperationRunning || op.Done != 1 || op.Waits[0] != "slowly" {
			t.Errorf("%s: %+v, %v", test.want, op, err)
		}
		got := s.got[0]
		assert.Equal(t, got.method+" "+got.uri+" "+got.body, test.want, "sent")
		assert.Equal(t, got.key != "", got.method != "GET", "%s: keyed", test.want)
	}
	c, _ := start(t, Config{}, answer(409, `{"type":"urn:belfry:problem:impossible","detail":"too few nodes"}`))
	if _, err := c.Begin(t.Context(), OperationRequest{Kind: Drain, Node: "n1"}); !errors.Is(err, ErrImpossible) {
		t.Error(err)
	}
	c, _ = start(t, Config{}, answer(200, `{"kind":"drain","total":4,"bytes":7,"steps":[{"shard":1,"action":"add"}]}`))
	plan, err := c.Preview(t.Context(), OperationRequest{Kind: Drain, Node: "n1"})
	if err != nil || plan.Bytes != 7 || plan.Steps[0].Action != "add" {
		t.Errorf("%+v, %v", plan, err)
	}
}

func TestNewRefuses(t *testing.T) {
	for _, cfg := range []Config{
		{}, {Addrs: []string{"ftp://x"}}, {Addrs: []string{"http://"}}, {Addrs: []string{"x"}, Timeout: -1},
		{Addrs: []string{"x"}, MaxAttempts: -1}, {Addrs: []string{"http://a b"}},
	} {
		_, err := New(cfg)
		assert.Error(t, err, "took %+v", cfg)
	}
	c, err := New(Config{Addrs: []string{"127.0.0.1:8400", "https://x/belfry/"}})
	if err != nil || c.conn.nodes.given[0].base != "http://127.0.0.1:8400" || c.conn.nodes.given[1].base != "https://x/belfry" {
		t.Errorf("%v, %v", c, err)
	}
}
