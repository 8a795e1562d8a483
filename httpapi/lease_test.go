package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/internal/assert"
)

// ready schedules tasks and makes them due.
func (h *harness) ready(queue string, ids ...string) {
	h.t.Helper()
	for _, id := range ids {
		h.call("PUT", "/v1/tasks/"+id, `{"delay":"0s","queue":"`+queue+`","payload":{"of":"`+id+`"}}`)
		h.fake.mu.Lock()
		h.fake.tasks[id].State, h.fake.tasks[id].WebhookId = fsmpb.State_STATE_READY, "w-"+id
		h.fake.mu.Unlock()
	}
	h.fake.mu.Lock()
	defer h.fake.mu.Unlock()
	h.fake.wake()
}

type leasedTask struct {
	ID, Queue, State, Receipt string
	WebhookID                 string `json:"webhook_id"`
	LeaseEndsAt               string `json:"lease_ends_at"`
	Attempt, Fence            int
	Payload                   json.RawMessage
}

func (a answer) leased(t testing.TB) []leasedTask {
	t.Helper()
	var v struct{ Tasks []leasedTask }
	if err := json.Unmarshal([]byte(a.text), &v); err != nil || a.StatusCode != 200 {
		t.Fatalf("%d %s: %v", a.StatusCode, a.text, err)
	}
	return v.Tasks
}

func (h *harness) lease(body string) []leasedTask {
	h.t.Helper()
	return h.call("POST", "/v1/queues/q/lease", body).leased(h.t)
}

func (h *harness) state(id string) fsmpb.State {
	h.fake.mu.Lock()
	defer h.fake.mu.Unlock()
	return h.fake.tasks[id].GetState()
}

func TestLease(t *testing.T) {
	h := newHarness(t)
	h.ready("q", "a", "b", "c")
	h.ready("other", "d")
	one := h.lease("")
	if len(one) != 1 || one[0].ID != "a" || one[0].State != "firing" || one[0].Attempt != 1 || one[0].Fence == 0 ||
		string(one[0].Payload) != `{"of":"a"}` || one[0].LeaseEndsAt != "2026-11-21T10:00:30.000Z" {
		t.Fatalf("%+v", one)
	}
	r, err := testKey.parse(one[0].Receipt)
	if err != nil || r.id != "a" || r.queue != "q" || r.fence != uint64(one[0].Fence) {
		t.Fatalf("receipt %+v %v", r, err)
	}
	more := h.lease(`{"max":1000,"lease":"12h","wait":"1m"}`)
	assert.MustEqual(t, len(more), 2, "%+v", more)
	requests := h.fake.queues.leases
	want := []task.LeaseRequest{{Namespace: "default", Queue: "q", Max: 1, Lease: 30 * time.Second, Look: true},
		{Namespace: "default", Queue: "q", Max: 1000, Lease: 12 * time.Hour}}
	assert.EqualSlices(t, requests, want, "asked")
	if got := h.call("GET", "/v1/tasks/a", "").json(t); got["lease_ends_at"] == nil || got["receipt"] != nil {
		t.Errorf("read %v", got)
	}
}

func TestBadLeases(t *testing.T) {
	h := newHarness(t)
	for _, c := range []struct{ body, field, limit string }{
		{`{"max":0}`, "max", "1 to 1000"},
		{`{"max":1001}`, "max", "1 to 1000"},
		{`{"max":"1"}`, "max", ""},
		{`{"wait":"61s"}`, "wait", "0s to 1m"},
		{`{"wait":"-1s"}`, "wait", "0s to 1m"},
		{`{"wait":5}`, "wait", ""},
		{`{"lease":"99ms"}`, "lease", "100ms to 12h"},
		{`{"lease":"12h1ns"}`, "lease", "100ms to 12h"},
		{`{"lease":"soon"}`, "lease", ""},
		{`{"lease":"1s","lease":"1s"}`, "lease", ""},
		{`{"queue":"q"}`, "queue", ""},
		{`{`, "", ""},
		{`[]`, "", ""},
	} {
		p := h.call("POST", "/v1/queues/q/lease", c.body).mustProblem(t, 400, c.field)
		limit, _ := p["limit"].(string)
		assert.Equal(t, limit, c.limit, "%s: limit", c.body)
	}
	h.call("POST", "/v1/queues/q/lease?max=1", "").mustProblem(t, 400, "max")
	assert.Equal(t, len(h.fake.queues.leases), 0, "asked %v", h.fake.queues.leases)
}

func TestLeaseWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t)
		begin := time.Now()
		if tasks := h.lease(`{"wait":"20s"}`); len(tasks) != 0 || time.Since(begin) != 20*time.Second {
			t.Errorf("%v after %v", tasks, time.Since(begin))
		}
		begin = time.Now()
		if tasks := h.lease(``); len(tasks) != 0 || time.Since(begin) != leaseLook {
			t.Errorf("%v after %v", tasks, time.Since(begin))
		}
		begin = time.Now()
		time.AfterFunc(3*time.Second, func() { h.ready("q", "a") })
		if tasks := h.lease(`{"wait":"20s","max":10}`); len(tasks) != 1 || time.Since(begin) != 3*time.Second {
			t.Errorf("%v after %v", tasks, time.Since(begin))
		}
	})
}

// TestWaitingConsumersAreBoundedApart checks that waiting consumers leave room for other calls, and have their own
// bound.
func TestWaitingConsumersAreBoundedApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, func(c *Config) { c.MaxInFlight, c.MaxPolls = 1, 3 })
		var consumers sync.WaitGroup
		for range 3 {
			consumers.Go(func() { h.lease(`{"wait":"20s"}`) })
		}
		synctest.Wait()
		h.call("POST", "/v1/queues/q/lease", "").mustProblem(t, 429, "")
		h.call("GET", "/v1/queues/default", "").mustStatus(t, 200)
		consumers.Wait()
		h.lease("")
	})
}

// TestConsumerThatGoesAway checks that a consumer that goes away frees its place, and that its granted tasks go back
// uncounted.
func TestConsumerThatGoesAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t)
		ctx, leave := context.WithCancel(t.Context())
		h.fake.grantAtTheEnd = true
		h.ready("q", "a")
		done := make(chan int)
		go func() {
			w, r := recorded("POST", "/v1/queues/q/lease", `{"wait":"1m"}`)
			h.server.ServeHTTP(w, r.WithContext(ctx))
			done <- w.Body.Len()
		}()
		synctest.Wait()
		leave()
		assert.Equal(t, <-done, 0, "bytes for a caller that has gone")
		if got := h.fake.last().GetSettle(); got.GetVerdict() != fsmpb.Verdict_VERDICT_RELEASED || !got.Consumer {
			t.Errorf("last command %v", h.fake.last())
		}
		if h.state("a") != fsmpb.State_STATE_READY || h.fake.tasks["a"].Attempts != 0 {
			t.Errorf("left %v", h.fake.tasks["a"])
		}
	})
}

// TestClosedConnectionEndsTheWait checks that the server notices a closed connection while the call waits.
func TestClosedConnectionEndsTheWait(t *testing.T) {
	h := newHarness(t)
	c := h.connect()
	send(t, c, "POST /v1/queues/q/lease HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 13\r\n\r\n"+
		`{"wait":"1m"}`)
	h.until(func() bool { return h.fake.queues.waiting == 1 })
	_ = c.Close()
	h.until(func() bool { return h.fake.queues.waiting == 0 })
}

// until waits until the fake has seen an event.
func (h *harness) until(seen func() bool) {
	h.t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(patientDial); time.Now().Before(end); <-tick.C {
		h.fake.mu.Lock()
		ok := seen()
		h.fake.mu.Unlock()
		if ok {
			return
		}
	}
	h.t.Fatal("the fake never saw the event")
}

func TestShutdownLetsConsumersGo(t *testing.T) {
	h := newHarness(t)
	var server *http.Server
	url := h.listen(func(s *http.Server) { server = s })
	answers := make(chan answer)
	for range 2 {
		go func() {
			r, err := http.Post(url+"/v1/queues/q/lease", jsonType, strings.NewReader(`{"wait":"1m"}`))
			if err != nil {
				t.Error(err)
				close(answers)
				return
			}
			answers <- read(t, r)
		}()
	}
	h.until(func() bool { return h.fake.queues.waiting == 2 })
	assert.NoError(t, server.Shutdown(t.Context()))
	for range 2 {
		tasks := (<-answers).leased(t)
		assert.Equal(t, len(tasks), 0, "%v", tasks)
	}
}

func TestLeaseFailures(t *testing.T) {
	for err, status := range map[error]int{task.ErrOverloaded: 429, task.ErrNotProposed: 503, task.ErrUnknown: 504} {
		h := newHarness(t)
		h.fake.readErr = fmt.Errorf("shard 1: %w", err)
		h.call("POST", "/v1/queues/q/lease", "").mustProblem(t, status, "")
	}
}

// TestTornLeaseAnswer checks that the unwritten tasks of an answer that breaks go back.
func TestTornLeaseAnswer(t *testing.T) {
	h := newHarness(t)
	var ids []string
	for i := range 30 {
		ids = append(ids, fmt.Sprintf("t%02d", i))
	}
	h.ready("q", ids...)
	for _, task := range h.fake.tasks {
		task.Spec.Payload = []byte(`"` + strings.Repeat("x", 10<<10) + `"`)
	}
	w, r := recorded("POST", "/v1/queues/q/lease", `{"max":30}`)
	h.server.ServeHTTP(&tornWriter{ResponseWriter: w, left: 1}, r)
	written := bytes.Count(w.Body.Bytes(), []byte(`"receipt"`))
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

// tornWriter fails after some writes. It then calls torn, unless torn is nil.
type tornWriter struct {
	http.ResponseWriter
	left int
	torn func()
}

func (w *tornWriter) Write(b []byte) (int, error) {
	if w.left--; w.left < 0 {
		if w.torn != nil {
			w.torn()
		}
		return 0, http.ErrHandlerTimeout
	}
	return w.ResponseWriter.Write(b)
}

func TestMemoryOfLeasedTasksIsBounded(t *testing.T) {
	h := newHarness(t, func(c *Config) { c.MemoryBytes = 100 << 10 })
	h.ready("q", "a", "b", "c")
	for _, task := range h.fake.tasks {
		task.Spec.Payload = []byte(`"` + strings.Repeat("x", 40<<10) + `"`)
	}
	h.call("POST", "/v1/queues/q/lease", `{"max":3}`).mustProblem(t, 429, "")
	if h.state("a") != fsmpb.State_STATE_READY || h.server.memory.Taken() != 0 {
		t.Errorf("a is %v, %d bytes are held", h.state("a"), h.server.memory.Taken())
	}
	if tasks := h.lease(`{"max":2}`); len(tasks) != 2 || h.server.memory.Taken() != 0 {
		t.Errorf("%d tasks, %d bytes are held", len(tasks), h.server.memory.Taken())
	}
}
