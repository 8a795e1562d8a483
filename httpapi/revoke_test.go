package httpapi

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/belfryhq/belfry/access"
	"github.com/belfryhq/belfry/client/view"
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/internal/assert"
	"github.com/belfryhq/belfry/internal/gated"
)

// changing is an Access whose only caller loses its key or its grants, or cannot be judged.
type changing struct {
	answer atomic.Pointer[func() (*access.Caller, error)]
}

func (a *changing) Caller(context.Context, access.Credentials) (*access.Caller, error) {
	return (*a.answer.Load())()
}

func (a *changing) to(caller *access.Caller, err error) {
	answer := func() (*access.Caller, error) { return caller, err }
	a.answer.Store(&answer)
}

// lastingCall is a call under way.
type lastingCall struct {
	w     *httptest.ResponseRecorder
	done  chan struct{}
	cut   bool // the connection was cut
	ended time.Time
}

func (h *harness) last(path, body string) *lastingCall {
	if body == "" {
		return h.lastOf("POST", path, ndjsonType, nil)
	}
	return h.lastOf("POST", path, jsonType, strings.NewReader(body))
}

// lastOf begins a call. Its body is that of lines, and then open, if lines is nil or of NDJSON.
func (h *harness) lastOf(method, path, contentType string, lines io.Reader) *lastingCall {
	l := &lastingCall{w: httptest.NewRecorder(), done: make(chan struct{})}
	in, out := io.Pipe()
	var r *http.Request
	switch {
	case contentType != ndjsonType:
		r = httptest.NewRequest(method, path, lines)
	default:
		r = httptest.NewRequest(method, path, in)
		if lines != nil {
			go func() { _, _ = io.Copy(out, lines) }() // the reader's end may come first
		}
	}
	r.Header.Set("Content-Type", contentType)
	go func() {
		defer close(l.done)
		defer func() {
			cause := recover()
			l.cut, l.ended = cause != nil, time.Now()
			if cause != nil && cause != http.ErrAbortHandler {
				panic(cause)
			}
			_ = in.Close() // as the HTTP server does
		}()
		h.server.ServeHTTP(&closing{ResponseRecorder: l.w, body: in}, r)
	}()
	return l
}

// closing is a response writer whose read deadline ends the request's body, as that of a connection does.
type closing struct {
	*httptest.ResponseRecorder
	body *io.PipeReader
	mu   sync.Mutex
	wake *time.Timer // closes the body; nil: no deadline was set
}

func (c *closing) SetReadDeadline(at time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.wake != nil {
		c.wake.Stop()
	}
	if !at.IsZero() {
		c.wake = time.AfterFunc(time.Until(at), func() { _ = c.body.Close() }) // its error is always nil
	}
	return nil
}

// lastLine returns the problem of the last line of an answer.
func (l *lastingCall) lastLine(t *testing.T) (status int, detail string) {
	t.Helper()
	lines := strings.Split(strings.TrimSpace(l.w.Body.String()), "\n")
	var v struct {
		Problem struct {
			Status int
			Detail string
		}
	}
	assert.Equal(t, json.Unmarshal([]byte(lines[len(lines)-1]), &v), nil, "%q", l.w.Body)
	return v.Problem.Status, v.Problem.Detail
}

// TestRevokedCallersAreCutOff checks that streams, batches and waiting leases end within a second after their caller
// may not make them any more, that their last line names the reason, and that they stay while the node cannot judge the
// caller.
func TestRevokedCallersAreCutOff(t *testing.T) {
	unknown := &access.Refusal{Kind: access.Unknown, Detail: "the key is wrong, expired or revoked"}
	for name, change := range map[string]struct {
		caller *access.Caller
		err    error
		status int
	}{
		"revoked":       {nil, unknown, 401},
		"flooded":       {nil, &access.Refusal{Kind: access.TooMany}, 429},
		"other grants":  {testCaller("read@a"), nil, 403},
		"no namespace":  {testCaller("consume@b schedule@b"), nil, 404},
		"another queue": {testCaller("consume@a queues=other schedule@a queues=other"), nil, 403},
		"fewer ids":     {testCaller("consume@a ids=x* schedule@a ids=x*"), nil, 403},
		"not judged":    {nil, &access.Refusal{Kind: access.Unavailable}, 0},
		"broken":        {nil, errors.New("the issuer does not answer"), 0},
		"the same":      {testCaller("consume@a schedule@a"), nil, 0},
		"more":          {testCaller("consume@a schedule@a schedule@b"), nil, 0},
		"other, wider":  {testCaller("admin@*"), nil, 0},
	} {
		for path, body := range map[string]string{
			"/v1/batch": "", "/v1/queues/q/stream": "", "/v1/queues/q/lease": `{"wait":"1m"}`,
		} {
			synctest.Test(t, func(t *testing.T) {
				a := new(changing)
				a.to(testCaller("consume@a schedule@a"), nil)
				h := newHarness(t, func(c *Config) { c.Access = a })
				l := h.last(path, body)
				time.Sleep(1500 * time.Millisecond) // of the bubble's clock
				a.to(change.caller, change.err)
				began := time.Now()
				time.Sleep(3 * time.Second)
				select {
				case <-l.done:
				default:
					assert.Equal(t, change.status, 0, "%s: %s goes on", name, path)
					h.server.close()
					a.to(nil, unknown)
					<-l.done
					return
				}
				if took := l.ended.Sub(began); change.status == 0 || took > soon {
					t.Errorf("%s: %s has ended after %v", name, path, took)
				}
				status := l.w.Code
				if body == "" {
					var detail string
					if status, detail = l.lastLine(t); !strings.Contains(detail, " ends here: ") {
						t.Errorf("%s: %s: %q", name, path, detail)
					}
				}
				if status != change.status || l.cut {
					t.Errorf("%s: %s: %d %s, cut %v", name, path, l.w.Code, l.w.Body, l.cut)
				}
			})
		}
	}
}

var errRevoked = &access.Refusal{Kind: access.Unknown, Detail: "the key is wrong, expired or revoked"}

// soon is the time within which a call ends after its node knows that its caller may not make it any more.
const soon = recheckEvery + 2*lastWords

// TestSoonIsASecond checks that the calls of a revoked key end within a second.
func TestSoonIsASecond(t *testing.T) {
	if soon >= time.Second {
		t.Errorf("%v", soon)
	}
}

// revoked begins a call, revokes its caller once the call waits, and returns the call after its end.
func (h *harness) revoked(t *testing.T, a *changing, method, path, contentType string, lines io.Reader) *lastingCall {
	t.Helper()
	a.to(testCaller("admin@*"), nil)
	l := h.lastOf(method, path, contentType, lines)
	synctest.Wait()
	time.Sleep(1500 * time.Millisecond) // of the bubble's clock
	select {
	case <-l.done:
		t.Errorf("%s %s ends with %d %s", method, path, l.w.Code, l.w.Body)
	default:
	}
	a.to(nil, errRevoked)
	began := time.Now()
	select {
	case <-l.done:
	case <-time.After(10 * soon):
		panic(fmt.Sprintf("%s %s does not end", method, path)) // a bubble with goroutines cannot end otherwise
	}
	if took := l.ended.Sub(began); took > soon {
		t.Errorf("%s %s ends after %v", method, path, took)
	}
	return l
}

// hangingAudit answers no reader.
type hangingAudit struct{ noAudit }

func (hangingAudit) Read(ctx context.Context, _ AuditQuery) (*AuditPage, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

var _ Audit = hangingAudit{}

// TestRevokedReadersAreRefused checks that calls which wait for other nodes do not outlive the key of their caller.
func TestRevokedReadersAreRefused(t *testing.T) {
	for _, path := range []string{"/v1/tasks", "/v1/audit", "/v1/doctor", "/v1/backup"} {
		synctest.Test(t, func(t *testing.T) {
			a := new(changing)
			h := newHarness(t, func(c *Config) { c.Access, c.Audit = a, hangingAudit{} })
			h.fake.list = func(ctx context.Context, _ *fsmpb.ListQuery) (*fsmpb.ListPage, error) {
				<-ctx.Done()
				return nil, ctx.Err()
			}
			h.fake.doctor = func(ctx context.Context) []view.Finding {
				<-ctx.Done()
				return nil
			}
			h.fake.backup = func(ctx context.Context, _ io.Writer, _ int64) (BackupSummary, error) {
				<-ctx.Done()
				return BackupSummary{}, ctx.Err()
			}
			if l := h.revoked(t, a, "GET", path, "", nil); l.w.Code != 401 || l.cut {
				t.Errorf("%s: %d %s", path, l.w.Code, l.w.Body)
			}
		})
	}
}

// TestRevokedReplay checks that the replay and the drop of many dead letters end with the key of their caller, and
// answer how many they have changed. The audit log has the change.
func TestRevokedReplay(t *testing.T) {
	t.Parallel()
	const letters, page = 5000, 1000
	for name, c := range map[string]struct {
		method, path string
		hang         func(ctx context.Context, cmds []*fsmpb.Command) []task.Reply
		inList       bool
		status       int
		count        int
	}{
		"refused for overload": {"POST", "/v1/queues/q/dead/replay", refuseAll(task.ErrOverloaded), false, 401, page},
		"commit without end":   {"DELETE", "/v1/queues/q/dead", hangUnknown, false, 504, page},
		"list without end":     {"DELETE", "/v1/queues/q/dead", nil, true, 401, page},
	} {
		synctest.Test(t, func(t *testing.T) {
			a := new(changing)
			a.to(testCaller("admin@*"), nil)
			book := new(auditBook)
			h := newHarness(t, func(c *Config) { c.Access, c.Audit = a, book })
			for i := range letters {
				h.die("q", fmt.Sprint("t", i))
			}
			pages := 0
			h.fake.do = func(ctx context.Context, cmds []*fsmpb.Command) []task.Reply {
				if pages++; pages > 1 && c.hang != nil {
					return c.hang(ctx, cmds)
				}
				return nil
			}
			lists := 0
			h.fake.list = func(ctx context.Context, _ *fsmpb.ListQuery) (*fsmpb.ListPage, error) {
				if lists++; lists > 1 && c.inList {
					<-ctx.Done()
					return nil, ctx.Err()
				}
				return nil, nil
			}
			l := h.revoked(t, a, c.method, c.path, "", nil)
			var p struct{ Status, Count int }
			if err := json.Unmarshal(l.w.Body.Bytes(), &p); err != nil || p.Status != c.status || p.Count != c.count {
				t.Errorf("%s: %d %s, want %d and %d", name, l.w.Code, l.w.Body, c.status, c.count)
			}
			if n := len(book.changes); n != 1 || book.changes[0].Status != c.status {
				t.Errorf("%s: %d changes in the audit log: %+v", name, n, book.changes)
			}
			left := 0
			for i := range letters {
				if s := h.state(fmt.Sprint("t", i)); s == fsmpb.State_STATE_DEAD {
					left++
				}
			}
			if left != letters-c.count {
				t.Errorf("%s: %d are left", name, left)
			}
		})
	}
}

func refuseAll(err error) func(context.Context, []*fsmpb.Command) []task.Reply {
	return func(_ context.Context, cmds []*fsmpb.Command) []task.Reply { return refusals(len(cmds), err) }
}

// hangUnknown answers when the call's time is up.
func hangUnknown(ctx context.Context, cmds []*fsmpb.Command) []task.Reply {
	<-ctx.Done()
	return refusals(len(cmds), task.ErrUnknown)
}

// TestRevokedInMidCommit checks that a batch and a stream whose commit takes long end with their caller's key, answer
// each line that they have read, and name the reason at last.
func TestRevokedInMidCommit(t *testing.T) {
	receipt := testKey.append(nil, receiptOf(&fsmpb.Task{Id: "t", Namespace: "default", Spec: &fsmpb.Spec{Queue: "q"}}))
	settles := fmt.Sprintf("{\"ack\":[%q]}\n", receipt)
	for path, line := range map[string]string{
		"/v1/batch": `{"op":"cancel","id":"t"}` + "\n", "/v1/queues/q/stream": settles,
	} {
		for name, c := range map[string]struct {
			do     func(context.Context, []*fsmpb.Command) []task.Reply
			status string
		}{"overload": {refuseAll(task.ErrOverloaded), "429"}, "no answer": {hangUnknown, "504"}} {
			synctest.Test(t, func(t *testing.T) {
				a := new(changing)
				h := newHarness(t, func(c *Config) { c.Access = a })
				h.fake.do = c.do
				// The first line is in the commit, and the second one waits.
				l := h.revoked(t, a, "POST", path, ndjsonType, io.MultiReader(
					strings.NewReader(line), later(func() { time.Sleep(time.Second) }), strings.NewReader(line)))
				answers := strings.Split(strings.TrimSpace(l.w.Body.String()), "\n")
				if len(answers) != 3 || !strings.Contains(answers[0], `"status":`+c.status) ||
					!strings.Contains(answers[1], `"status":401`) || l.cut {
					t.Errorf("%s, %s: %s, cut %v", path, name, l.w.Body, l.cut)
				}
				status, _ := l.lastLine(t)
				assert.Equal(t, status, 401, "%s, %s: %s", path, name, l.w.Body)
			})
		}
	}
}

// later is an empty reader that waits once.
type later func()

func (f later) Read([]byte) (int, error) {
	f()
	return 0, io.EOF
}

// TestRevokedConsumerLosesItsTasks checks that tasks which a revoked consumer has not taken go back to their queue.
func TestRevokedConsumerLosesItsTasks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := new(changing)
		a.to(testCaller("admin@*"), nil)
		h := newHarness(t, func(c *Config) { c.Access, c.StreamBytes = a, 1<<20 })
		for i := range 20 {
			h.call("PUT", fmt.Sprint("/v1/tasks/t", i),
				`{"delay":"0s","queue":"q","payload":"`+strings.Repeat("x", 40<<10)+`"}`)
			h.fake.set(fmt.Sprint("t", i), fsmpb.State_STATE_READY, 0)
		}
		done := make(chan struct{})
		in, _ := io.Pipe()
		w := &stalling{closing: closing{ResponseRecorder: httptest.NewRecorder(), body: in}, free: make(chan struct{})}
		r := httptest.NewRequest("POST", "/v1/queues/q/stream?credit=20", in)
		r.Header.Set("Content-Type", ndjsonType)
		go func() {
			defer close(done)
			defer func() { _ = recover() }()
			h.server.ServeHTTP(w, r)
		}()
		time.Sleep(1500 * time.Millisecond) // of the bubble's clock
		a.to(nil, errRevoked)
		began := time.Now()
		<-done
		if took := time.Since(began); took > soon {
			t.Errorf("ended after %v", took)
		}
		for i := range 20 {
			assert.Equal(t, h.state(fmt.Sprint("t", i)), fsmpb.State_STATE_READY, "t%d", i)
		}
	})
}

// stalling is a response writer whose client takes no bytes.
type stalling struct {
	closing
	free chan struct{}
	once sync.Once
}

func (s *stalling) Write([]byte) (int, error) {
	<-s.free
	return 0, os.ErrDeadlineExceeded
}

func (s *stalling) Flush() {}

func (s *stalling) SetWriteDeadline(at time.Time) error {
	if !at.IsZero() && at.Before(time.Now()) {
		s.once.Do(func() { close(s.free) })
	}
	return nil
}

// TestReasonArrives checks that a client which is still sending lines gets the last one of the answer, and its end.
func TestReasonArrives(t *testing.T) {
	eachStream(t, func(t *testing.T, version, path string) {
		synctest.Test(t, func(t *testing.T) { reasonArrives(t, newChanging(t).inMemory(), version, path) })
	})
}

// TestReasonArrivesOverSockets checks the same on the system's network, which may drop an answer when a connection with
// unread bytes closes. The server has less than a second of real time for its last words.
func TestReasonArrivesOverSockets(t *testing.T) {
	gated.Need(t, gated.Timed)
	eachStream(t, func(t *testing.T, version, path string) { reasonArrives(t, newChanging(t), version, path) })
}

// eachStream runs a test for each version of HTTP and each call whose body is a stream of lines.
func eachStream(t *testing.T, test func(t *testing.T, version, path string)) {
	for _, version := range versions {
		for _, path := range []string{"/v1/batch", "/v1/queues/q/stream"} {
			t.Run(version+path, func(t *testing.T) { test(t, version, path) })
		}
	}
}

// revocable is a server whose caller may lose its right.
type revocable struct {
	*harness
	access *changing
}

func newChanging(t *testing.T) revocable {
	a := new(changing)
	a.to(testCaller("admin@*"), nil)
	return revocable{newHarness(t, func(c *Config) { c.Access = a }), a}
}

func (r revocable) inMemory() revocable {
	r.harness.inMemory()
	return r
}

func reasonArrives(t *testing.T, h revocable, version, path string) {
	h.call("PUT", "/v1/tasks/t", `{"delay":"1h"}`)
	in, out := io.Pipe()
	r, err := http.NewRequestWithContext(t.Context(), "POST", h.listen()+path, in)
	assert.NoError(t, err)
	r.Header.Set("Content-Type", ndjsonType)
	resp, err := h.client(version).Do(r)
	assert.NoError(t, err)
	var sending sync.WaitGroup
	sending.Go(func() {
		for {
			if _, err := io.WriteString(out, `{"op":"touch","id":"t"}`+"\n"); err != nil {
				return
			}
			if h.network != nil {
				<-time.After(time.Millisecond) // or the bubble's clock would stand
			}
		}
	})
	answers := bufio.NewScanner(resp.Body)
	answers.Scan()
	h.access.to(nil, errRevoked)
	last := ""
	for answers.Scan() {
		last = answers.Text()
	}
	if err := answers.Err(); err != nil || !strings.Contains(last, "ends here: "+errRevoked.Detail) {
		t.Errorf("%v after %q", err, last)
	}
	_, _ = in.Close(), resp.Body.Close()
	sending.Wait()
}
