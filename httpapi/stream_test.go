package httpapi

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/internal/assert"
)

type streamLine struct {
	Task      *leasedTask
	Settled   []settleResult
	Problem   map[string]any
	Heartbeat string
}

// openStream is a consumer's end of a stream over a real connection.
type openStream struct {
	t     *testing.T
	lines *bufio.Scanner
	write *io.PipeWriter
	body  io.Closer
}

func (h *harness) stream(t *testing.T, url, query string) *openStream {
	t.Helper()
	body, w := io.Pipe()
	r, err := http.NewRequestWithContext(t.Context(), "POST", url+"/v1/queues/q/stream"+query, body)
	assert.NoError(t, err)
	r.Header.Set("Content-Type", ndjsonType)
	resp, err := http.DefaultClient.Do(r)
	assert.NoError(t, err)
	t.Cleanup(func() { _, _ = w.Close(), resp.Body.Close() })
	assert.MustEqual(t, resp.StatusCode, 200, "status")
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 1<<20)
	return &openStream{t: t, lines: lines, write: w, body: resp.Body}
}

func (s *openStream) say(line string) {
	s.t.Helper()
	_, err := io.WriteString(s.write, line+"\n")
	assert.NoError(s.t, err)
}

// next returns the next line, or nil at the end.
func (s *openStream) next() *streamLine {
	s.t.Helper()
	if !s.lines.Scan() {
		assert.NoError(s.t, s.lines.Err())
		return nil
	}
	v := new(streamLine)
	if err := json.Unmarshal(s.lines.Bytes(), v); err != nil {
		s.t.Fatalf("%s: %v", s.lines.Text(), err)
	}
	return v
}

func (s *openStream) task() *leasedTask {
	s.t.Helper()
	l := s.next()
	if l == nil || l.Task == nil {
		s.t.Fatalf("no task, but %+v", l)
	}
	return l.Task
}

func TestStream(t *testing.T) {
	h := newHarness(t)
	s := h.stream(t, h.listen(), "?credit=2&lease=1m")
	h.ready("q", "a", "b", "c")
	a, b := s.task(), s.task()
	if a.ID != "a" || a.LeaseEndsAt != "2026-11-21T10:01:00.000Z" || b.ID != "b" {
		t.Fatalf("%+v %+v", a, b)
	}
	s.say(fmt.Sprintf(`{"ack":[%q],"nack":[{"receipt":%q}]}`, a.Receipt, b.Receipt)) // gives no more credit
	if l := s.next(); len(l.Settled) != 2 || l.Settled[0].Status != 200 || l.Settled[1].ID != "b" {
		t.Fatalf("%+v", l)
	}
	s.say(`{"credit":1}`)
	c := s.task()
	s.say(`{"boil":1}`)
	l := s.next()
	assert.MustEqual(t, l.Problem["field"], "boil", "%+v", l)
	s.say(`{"credit":10000}`)
	s.say(`{"credit":1}`)
	if l := s.next(); l.Problem["field"] != "credit" || l.Problem["limit"] != "10000" {
		t.Fatalf("%+v", l)
	}
	s.say(fmt.Sprintf(`{"ack":[%q]}`, c.Receipt))
	_ = s.write.Close()
	if l := s.next(); len(l.Settled) != 1 || l.Settled[0].Status != 200 {
		t.Fatalf("%+v", l)
	}
	if l := s.next(); l != nil {
		t.Fatalf("after the end: %+v", l)
	}
	if h.state("a") != fsmpb.State_STATE_DELIVERED || h.state("b") != fsmpb.State_STATE_RETRYING {
		t.Error("not settled")
	}
	h.until(func() bool { return h.fake.queues.waiting == 0 })
}

func TestStreamParameters(t *testing.T) {
	h := newHarness(t)
	for query, field := range map[string]string{"credit=0": "credit", "credit=10001": "credit", "credit=x": "credit",
		"credit=1&credit=1": "credit", "lease=1ms": "lease", "lease=": "lease", "max=1": "max"} {
		h.call("POST", "/v1/queues/q/stream?"+query, "").mustProblem(t, 400, field)
	}
	h.call("POST", "/v1/queues/q/stream", "{}").mustProblem(t, 415, "Content-Type")
}

func TestStreamBeats(t *testing.T) {
	h := newHarness(t, func(c *Config) { c.StreamBeat = time.Millisecond })
	s := h.stream(t, h.listen(), "")
	for range 2 {
		l := s.next()
		assert.MustEqual(t, l.Heartbeat, "2026-11-21T10:00:00.000Z", "%+v", l)
	}
}

// TestStreamOfASlowReader checks that a consumer that does not read gets no more tasks than fit, and that all of them
// go back when it is gone.
func TestStreamOfASlowReader(t *testing.T) {
	h := newHarness(t, func(c *Config) { c.StreamBytes = 64 << 10 })
	var ids []string
	for i := range 3000 {
		ids = append(ids, fmt.Sprintf("t%04d", i))
	}
	h.ready("q", ids...)
	for _, task := range h.fake.tasks {
		task.Spec.Payload = []byte(`"` + strings.Repeat("x", 30<<10) + `"`)
	}
	h.fake.leaseMost = 5
	c := h.connect()
	send(t, c, "POST /v1/queues/q/stream?credit=3000 HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-ndjson\r\n"+
		"Transfer-Encoding: chunked\r\n\r\n")
	asked := -1
	h.until(func() bool { // until it leases no more: TCP's buffers are full
		now := len(h.fake.queues.leases)
		quiet := now == asked && now > 3 && h.fake.queues.waiting == 0
		asked = now
		return quiet
	})
	leased := 0
	for _, id := range ids {
		if h.state(id) == fsmpb.State_STATE_FIRING {
			leased++
		}
	}
	if leased == len(ids) {
		t.Fatal("it was leased everything")
	}
	_ = c.Close()
	h.until(func() bool {
		return slices.ContainsFunc(h.fake.seen, func(c *fsmpb.Command) bool {
			return c.GetSettle().GetVerdict() == fsmpb.Verdict_VERDICT_RELEASED
		})
	})
}

// TestStreamThatBreaks checks that leased and unwritten tasks go back, and that written ones do not.
func TestStreamThatBreaks(t *testing.T) {
	h := newHarness(t)
	var ids []string
	for i := range 40 {
		ids = append(ids, fmt.Sprintf("t%02d", i))
	}
	h.ready("q", ids...)
	for _, task := range h.fake.tasks {
		task.Spec.Payload = []byte(`"` + strings.Repeat("x", 10<<10) + `"`)
	}
	w, _ := recorded("POST", "/", "")
	body, consumer := io.Pipe()
	r := httptest.NewRequest("POST", "/v1/queues/q/stream?credit=40", body)
	r.Header.Set("Content-Type", ndjsonType)
	func() {
		defer func() {
			assert.Equal[any](t, recover(), http.ErrAbortHandler, "it ends with")
		}()
		h.server.ServeHTTP(&tornWriter{ResponseWriter: w, left: 2, torn: func() { _ = consumer.Close() }}, r)
	}()
	written := strings.Count(w.Body.String(), `"receipt"`)
	for i, id := range ids {
		want := fsmpb.State_STATE_READY
		if i < written {
			want = fsmpb.State_STATE_FIRING
		}
		assert.Equal(t, h.state(id), want, "%s of %d written", id, written)
	}
	if written == 0 || written == len(ids) {
		t.Errorf("%d written", written)
	}
}

func TestShutdownEndsStreamsInOrder(t *testing.T) {
	h := newHarness(t)
	var server *http.Server
	url := h.listen(func(s *http.Server) { server = s })
	h.ready("q", "a")
	s := h.stream(t, url, "?credit=5")
	a := s.task()
	s.say(fmt.Sprintf(`{"ack":[%q]}`, a.Receipt))
	l := s.next()
	assert.MustEqual(t, l.Settled[0].Status, 200, "%+v", l)
	done := make(chan error)
	go func() { done <- server.Shutdown(context.WithoutCancel(t.Context())) }()
	if l := s.next(); l != nil {
		t.Errorf("after the end: %+v", l)
	}
	assert.Equal(t, <-done, nil)
}

// TestStreamOutlivesTrouble checks that a stream waits out failures of the shards.
func TestStreamOutlivesTrouble(t *testing.T) {
	h := newHarness(t)
	h.fake.readErr = task.ErrNotProposed
	s := h.stream(t, h.listen(), "?credit=1")
	h.until(func() bool { return len(h.fake.queues.leases) > 2 })
	h.fake.mu.Lock()
	h.fake.readErr = nil
	h.fake.mu.Unlock()
	h.ready("q", "a")
	got := s.task()
	assert.Equal(t, got.ID, "a", "%+v", got)
}

func TestStreamsAreBounded(t *testing.T) {
	h := newHarness(t, func(c *Config) { c.MaxStreams = 1 })
	h.stream(t, h.listen(), "?credit=1")
	h.call("POST", "/v1/queues/q/stream", "").mustProblem(t, 429, "")
	h.call("POST", "/v1/queues/q/lease", "").mustStatus(t, 200)
}

// TestStreamIsOnlyPosted checks that GET and HEAD lease no tasks, since a web page can make a browser send them.
func TestStreamIsOnlyPosted(t *testing.T) {
	h := newHarness(t)
	h.ready("q", "a")
	for _, method := range []string{"GET", "HEAD"} {
		a := h.call(method, "/v1/queues/q/stream?credit=10", "")
		if allow := a.Header.Get("Allow"); a.StatusCode != 405 || !strings.Contains(allow, "POST") ||
			strings.Contains(allow, "GET") || strings.Contains(allow, "HEAD") {
			t.Errorf("%s: %d, Allow %q", method, a.StatusCode, allow)
		}
	}
	if h.state("a") != fsmpb.State_STATE_READY || len(h.fake.queues.leases) != 0 {
		t.Errorf("a is %v, leases: %v", h.state("a"), h.fake.queues.leases)
	}
}
