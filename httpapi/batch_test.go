package httpapi

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/internal/assert"
	"github.com/belfryhq/belfry/internal/contract"
)

type batchAnswer struct {
	ID       string         `json:"id"`
	Status   int            `json:"status"`
	Revision uint64         `json:"revision"`
	Outcome  string         `json:"outcome"`
	Problem  map[string]any `json:"problem"`
}

func (h *harness) batch(body string) []batchAnswer {
	h.t.Helper()
	a := h.call("POST", "/v1/batch", body, "Content-Type", ndjsonType)
	assert.MustEqual(h.t, a.StatusCode, 200, "%s", a.text)
	return batchAnswers(h.t, a.text)
}

func batchAnswers(t testing.TB, text string) []batchAnswer {
	t.Helper()
	var out []batchAnswer
	for line := range strings.Lines(text) {
		var a batchAnswer
		assert.NoError(t, json.Unmarshal([]byte(line), &a), "%q", line)
		out = append(out, a)
	}
	return out
}

func TestBatchLines(t *testing.T) {
	h := newHarness(t)
	for i, c := range []struct {
		line, id string
		status   int
		field    string
	}{
		{`{"op":"schedule","id":"a","delay":"1h","payload":{"n": 1},"key":"k1"}`, "a", 201, ""},
		{`{"op":"schedule","id":"a","delay":"1h","if_none_match":"*"}`, "a", 412, ""},
		{`{"id":"a","if_match":1,"delay":"1h","op":"schedule"}`, "a", 200, ""},
		{`{"op":"touch","id":"a","delay":"5s","if_match":"2"}`, "a", 200, ""},
		{`{"op":"touch","id":"a","delay":"5s","payload":[1]}`, "a", 200, ""},
		{`{"op":"fire","id":"a","if_match":"\"4\""}`, "a", 200, ""},
		{`{"op":"schedule","id":"a","delay":"1h","payload":{"n": 1},"key":"k1"}`, "a", 201, ""},
		{`{"op":"schedule","id":"a","delay":"1h","payload":{"n": 2},"key":"k1"}`, "a", 422, keyHeader},
		{`{"op":"cancel","id":"a"}`, "a", 200, ""},
		{`{"op":"cancel","id":"none"}`, "none", 404, ""},
		{`{"op":"cancel","id":"a","delay":"1s"}`, "a", 400, "delay"},
		{`{"op":"fire","id":"a","payload":1}`, "a", 400, "payload"},
		{`{"op":"touch","id":"a","payload":1,"append":[1]}`, "a", 400, "append"},
		{`{"op":"touch","id":"a","priority":1}`, "a", 400, "priority"},
		{`{"op":"schedule","id":"a","delay":"1s","no_later_than":"1s"}`, "a", 400, "no_later_than"},
		{`{"op":"schedule","id":"a"}`, "a", 400, "delay"},
		{`{"op":"move","id":"a"}`, "a", 400, "op"},
		{`{"id":"a"}`, "a", 400, "op"},
		{`{"op":"schedule","delay":"1s"}`, "", 400, "id"},
		{`{"op":"schedule","id":"a/b","delay":"1s"}`, "a/b", 400, "id"},
		{`{"op":"schedule","id":7,"delay":"1s"}`, "", 400, "id"},
		{`{"op":"schedule","colour":1,"id":"late","delay":"1s"}`, "late", 400, "colour"},
		{`{"op":"fire","id":"a","key":""}`, "a", 400, "key"},
		{`{"op":"fire","id":"a","key":7}`, "a", 400, "key"},
		{`{"op":"fire","id":"a","if_match":true}`, "a", 400, "if_match"},
		{`{"op":"fire","id":"a","if_none_match":"1"}`, "a", 400, "if_none_match"},
		{`{"op":"fire","id":"a"`, "a", 400, ""},
		{`nonsense`, "", 400, ""},
		{`[]`, "", 400, ""},
	} {
		answers := h.batch(c.line)
		if len(answers) != 1 {
			t.Fatalf("%d: %d answers", i, len(answers))
		}
		a := answers[0]
		field, _ := a.Problem["field"].(string)
		if a.ID != c.id || a.Status != c.status || field != c.field || (a.Status >= 300) != (a.Problem != nil) {
			t.Errorf("%s: %+v", c.line, a)
		}
		if a.Problem != nil && a.Problem["status"] != float64(a.Status) {
			t.Errorf("%s: the problem says %v", c.line, a.Problem["status"])
		}
	}
}

// TestBatchPatches checks that a patch line means the same as the PATCH call with the same fields, wherever its op
// stands.
func TestBatchPatches(t *testing.T) {
	h := newHarness(t)
	h.call("PUT", "/v1/tasks/a", `{"delay":"1h","target":{"url":"http://x/","timeout":"5s"},"labels":{"l":"v"}}`).mustStatus(t, 201)
	for i, c := range []struct {
		line, id string
		status   int
		field    string
	}{
		{`{"op":"patch","id":"a","key":"k","target":{"timeout":null},"labels":null,"payload":{"n": 1}}`, "a", 200, ""},
		{`{"op":"patch","id":"a","key":"k","target":{"timeout":null},"labels":null,"payload":{"n": 1}}`, "a", 200, ""},
		{`{"op":"patch","id":"a","key":"k","target":{"timeout":null}}`, "a", 422, keyHeader},
		{`{"target":{"headers":{"x-a":"1"}},"id":"a","if_match":2,"op":"patch"}`, "a", 200, ""},
		{`{"delay":"2h","op":"\u0070atch","id":"a"}`, "a", 200, ""},
		{`{"op":"patch","id":"a","if_match":2,"delay":"1h"}`, "a", 412, ""},
		{`{"op":"patch","id":"none","delay":"1h"}`, "none", 404, ""},
		{`{"op":"patch","id":"a"}`, "a", 200, ""},
		{`{"op":"patch","id":"a","delay":null}`, "a", 400, "delay"},
		{`{"op":"patch","id":"a","delay":"1s","fire_at":"2026-11-21T10:00:00Z"}`, "a", 400, "delay"},
		{`{"id":"a","queue":"q","op":"patch"}`, "a", 400, "queue"},
		{`{"op":"patch","id":"a","no_later_than":"1s"}`, "a", 400, "no_later_than"},
		{`{"op":"patch","id":"a","colour":1}`, "a", 400, "colour"},
		{`{"op":"patch","op":"fire","id":"a"}`, "a", 400, "op"},
		{`{"op":"patch","delay":"1s"}`, "", 400, "id"},
		{`{"op":"patch","id":"a","target":{"url":"ftp://x/"}}`, "a", 400, "target.url"},
		{`{"op":"patch","id":"a"} x`, "a", 400, ""},
	} {
		a := h.batch(c.line)[0]
		if field, _ := a.Problem["field"].(string); a.ID != c.id || a.Status != c.status || field != c.field {
			t.Errorf("%d: %s: %+v", i, c.line, a)
		}
	}
	for _, body := range []string{
		`{"target":null,"retry":null,"labels":null,"payload":null,"content_type":null}`,
		`{"target":{"headers":{"a":null,"B":"2"},"timeout":null},"retry":{"max_attempts":null,"min_backoff":"1s"}}`,
		`{"fire_at":"2026-11-21T11:00:00Z","labels":{"a":null,"b":"c"},"payload_base64":"AAE="}`,
	} {
		single, err := testParser().patch([]byte(body), &contract.PatchObject)
		l := testParser().batchLine([]byte(`{"op":"patch","id":"a",` + body[1:]))
		if err != nil || l.refused != nil || !proto.Equal(single.patch, l.cmd.GetPatch()) {
			t.Errorf("%s: %v and %v, %v and %v", body, single.patch, l.cmd.GetPatch(), err, l.refused)
		}
	}
	single := h.call("PATCH", "/v1/tasks/a", `{"labels":null,"payload":{"n": 1},"target":{"timeout":null}}`, keyHeader, "k")
	single.mustStatus(t, 200) // the first line meant the same
}

// TestBatchTellsMapAndPrevious checks that a batch's header has the version of the node's map, and that a schedule's
// answer has the replaced task's state.
func TestBatchTellsMapAndPrevious(t *testing.T) {
	h := newHarness(t)
	body := strings.Repeat(`{"op":"schedule","id":"a","delay":"1h"}`+"\n", 2) + `{"op":"cancel","id":"a"}`
	a := h.call("POST", "/v1/batch", body, "Content-Type", ndjsonType)
	assert.Equal(t, a.Header.Get(mapHeader), h.fake.MapVersion(), "map")
	want := `{"id":"a","status":201,"revision":1}
{"id":"a","status":200,"revision":2,"previous":"scheduled"}
{"id":"a","status":200,"revision":3,"outcome":"cancelled"}
`
	if a.text != want {
		t.Errorf("answered\n%s", a.text)
	}
}

func TestBatchKeepsOrderAndGoesOn(t *testing.T) {
	h := newHarness(t, func(c *Config) { c.BatchChunkLines = 16 })
	var body strings.Builder
	for i := range 1000 {
		switch i % 5 {
		case 0:
			body.WriteString("\n \r\n")
			fallthrough
		case 1, 2:
			fmt.Fprintf(&body, `{"op":"schedule","id":"t%d","delay":"1h"}`+"\r\n", i)
		case 3:
			fmt.Fprintf(&body, `{"op":"schedule","id":"t%d","delay":"-1h"}`+"\n", i)
		case 4:
			fmt.Fprintf(&body, `{"op":"cancel","id":"t%d"}`+"\n", i-2)
		}
	}
	answers := h.batch(strings.TrimSuffix(body.String(), "\n")) // the last line needs no end
	assert.MustEqual(t, len(answers), 1000, "answers")
	for i, a := range answers {
		want := batchAnswer{ID: fmt.Sprintf("t%d", i), Status: 201}
		switch i % 5 {
		case 3:
			want.Status = 400
		case 4:
			want = batchAnswer{ID: fmt.Sprintf("t%d", i-2), Status: 200, Outcome: "cancelled"}
		}
		if a.ID != want.ID || a.Status != want.Status || a.Outcome != want.Outcome {
			t.Fatalf("answer %d: %+v", i, a)
		}
	}
}

// TestBatchLineOverTheLimit checks that a line over the limit is answered as such, in its place, and that the lines
// after it are carried out.
func TestBatchLineOverTheLimit(t *testing.T) {
	const line = `{"op":"schedule","id":"a","delay":"1h"}` + "\n"
	for _, size := range []int{1000, 15_000} {
		long := strings.Repeat("x", size+1)
		for name, body := range map[string]string{
			"in the middle": line + long + "\n" + line, "twice": line + long + "\n" + long + "\n\n" + line,
			"at the end": line + long, "alone": long + "\n",
		} {
			h := newHarness(t, func(c *Config) { c.BodyBytes = 1000 })
			var want, got []int
			for one := range strings.SplitSeq(strings.ReplaceAll(body, "\n\n", "\n"), "\n") {
				switch {
				case one == long:
					want = append(want, 413)
				case one != "":
					want = append(want, 201-min(len(want), 1)) // the first line creates the task
				}
			}
			for _, a := range h.batch(body) {
				if got = append(got, a.Status); a.Status == 413 && a.Problem["limit"] != "1000 bytes" {
					t.Errorf("%+v", a)
				}
			}
			assert.EqualSlices(t, got, want, "%d bytes, %s", size, name)
		}
	}
}

// TestBatchLineWithoutAnEnd checks that a line far over the limit is answered, and ends the batch.
func TestBatchLineWithoutAnEnd(t *testing.T) {
	h := newHarness(t, func(c *Config) { c.BodyBytes = 1000 })
	const line = `{"op":"schedule","id":"a","delay":"1h"}` + "\n"
	answers := h.batch(line + strings.Repeat("x", 300_000) + "\n" + line)
	if len(answers) != 2 || answers[0].Status != 201 || answers[1].Status != 413 {
		t.Errorf("%+v", answers)
	}
}

func TestEmptyBatch(t *testing.T) {
	for _, body := range []string{"", "\n", " \n\t\n"} {
		answers := newHarness(t).batch(body)
		assert.Equal(t, len(answers), 0, "%q: %v", body, answers)
	}
}

// TestBatchSlowsDownUnderOverload checks that only the lines refused for overload are retried, and that the caller sees
// no 429.
func TestBatchSlowsDownUnderOverload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t)
		var calls atomic.Int32
		h.fake.do = func(_ context.Context, cmds []*fsmpb.Command) []task.Reply {
			if n := calls.Add(1); n <= 6 { // one more command succeeds each time
				replies := make([]task.Reply, len(cmds))
				for i := range replies {
					replies[i].Err = fmt.Errorf("shard 1: %w", task.ErrOverloaded)
				}
				replies[0] = task.Reply{Result: &fsmpb.Result{Code: fsmpb.Code_CODE_OK, Revision: uint64(n)}}
				return replies
			}
			return nil
		}
		var body strings.Builder
		for i := range 10 {
			fmt.Fprintf(&body, `{"op":"schedule","id":"t%d","delay":"1h"}`+"\n", i)
		}
		answers := h.batch(body.String())
		for i, a := range answers {
			if a.ID != fmt.Sprintf("t%d", i) || a.Status/100 != 2 || i < 6 && a.Revision != uint64(i+1) {
				t.Errorf("answer %d: %+v", i, a)
			}
		}
		if len(answers) != 10 || calls.Load() < 7 {
			t.Errorf("%d answers, %d calls", len(answers), calls.Load())
		}
	})
}

func TestBatchErrorsAreOfTheirLines(t *testing.T) {
	h := newHarness(t)
	h.fake.do = func(_ context.Context, cmds []*fsmpb.Command) []task.Reply {
		var replies []task.Reply
		for _, c := range cmds {
			err := map[string]error{"no": task.ErrNotProposed, "unknown": task.ErrUnknown}[c.Id]
			replies = append(replies, task.Reply{Result: &fsmpb.Result{Code: fsmpb.Code_CODE_OK}, Err: err})
		}
		return replies
	}
	answers := h.batch(`{"op":"fire","id":"no"}` + "\n" + `{"op":"fire","id":"unknown"}` + "\n" +
		`{"op":"fire","id":"fine"}`)
	if answers[0].Status != 503 || answers[0].Problem["committed"] != "no" || answers[1].Status != 504 ||
		answers[1].Problem["committed"] != "unknown" || answers[2].Status != 200 {
		t.Errorf("%+v", answers)
	}
}

// heldWriter blocks all writes until it is opened.
type heldWriter struct {
	*httptest.ResponseRecorder
	open    chan struct{}
	blocked atomic.Bool
}

func (w *heldWriter) Write(b []byte) (int, error) {
	w.blocked.Store(true)
	<-w.open
	return w.ResponseRecorder.Write(b)
}

// countedReader yields endless lines, and counts the bytes read.
type countedReader struct {
	line  []byte
	limit int64
	taken atomic.Int64
}

func (r *countedReader) Read(b []byte) (int, error) {
	if r.taken.Load() >= r.limit {
		return 0, io.EOF
	}
	n := 0
	for n+len(r.line) <= len(b) {
		n += copy(b[n:], r.line)
	}
	r.taken.Add(int64(n))
	return n, nil
}

// TestBatchMemoryIsBoundedWithASlowReader checks that the server reads no more than its bounds while the client takes
// no answers, and everything afterwards.
func TestBatchMemoryIsBoundedWithASlowReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, func(c *Config) { c.BatchAnswerBytes, c.BatchChunkLines = 32<<10, 256 })
		h.fake.do = func(_ context.Context, cmds []*fsmpb.Command) []task.Reply { return okReplies(cmds) }
		lines := &countedReader{line: []byte(`{"op":"fire","id":"a"}` + "\n"), limit: 8 << 20}
		r := httptest.NewRequest("POST", "/v1/batch", lines)
		r.Header.Set("Content-Type", ndjsonType)
		w := &heldWriter{ResponseRecorder: httptest.NewRecorder(), open: make(chan struct{})}
		done := make(chan struct{})
		go func() {
			defer close(done)
			h.server.ServeHTTP(w, r)
		}()
		synctest.Wait() // all goroutines wait for the writer
		if taken := lines.taken.Load(); !w.blocked.Load() || taken > 512<<10 {
			t.Errorf("%d bytes are taken in while no answer is", taken)
		}
		close(w.open)
		<-done
		answered := bytes.Count(w.Body.Bytes(), []byte("\n"))
		if want := int(lines.taken.Load()) / len(lines.line); answered != want {
			t.Errorf("%d answers to %d lines", answered, want)
		}
		assert.Equal(t, h.server.memory.Taken(), 0, "bytes are never given back")
	})
}

func okReplies(cmds []*fsmpb.Command) []task.Reply {
	replies := make([]task.Reply, len(cmds))
	for i := range replies {
		replies[i].Result = &fsmpb.Result{Code: fsmpb.Code_CODE_OK, Revision: uint64(i)}
	}
	return replies
}

func TestBatchPanicCutsTheConnection(t *testing.T) {
	h := newHarness(t)
	h.fake.do = func(context.Context, []*fsmpb.Command) []task.Reply { panic("broken invariant") }
	defer func() {
		assert.Equal[any](t, recover(), http.ErrAbortHandler, "panic")
		assert.Equal(t, h.server.batches.callers.Taken(), 0, "batches are under way")
	}()
	h.batch(`{"op":"fire","id":"a"}`)
}

func TestTooManyBatches(t *testing.T) {
	h := newHarness(t, func(c *Config) { c.MaxBatches = 1 })
	if _, refusal := h.server.batches.take(holder{group: "192.0.2.1/32"}); refusal != nil {
		t.Fatal(refusal)
	}
	h.call("POST", "/v1/batch", "", "Content-Type", ndjsonType).mustProblem(t, 429, "")
}

func TestBatchIdleEndsWithALineThatSaysSo(t *testing.T) {
	h := newHarness(t, func(c *Config) { c.BatchIdle = 50 * time.Millisecond })
	server := h.listen()
	body, w := io.Pipe()
	defer w.Close()
	go func() { _, _ = io.WriteString(w, `{"op":"fire","id":"a"}`+"\n"+`{"op":"fi`) }()
	r, err := http.Post(server+"/v1/batch", ndjsonType, body)
	assert.NoError(t, err)
	answers := batchAnswers(t, read(t, r).text)
	if len(answers) != 2 || answers[0].Status != 404 || answers[1].Status != 408 {
		t.Errorf("%+v", answers)
	}
}

// TestSmallBatchIsAnsweredWhole checks that a small batch that arrives in one piece is answered in one, and that a slow
// one sends its header earlier.
func TestSmallBatchIsAnsweredWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t)
		body := strings.Repeat(`{"op":"fire","id":"a"}`+"\n", 50)
		a := h.call("POST", "/v1/batch", body, "Content-Type", ndjsonType)
		if n := len(batchAnswers(t, a.text)); n != 50 || a.Header.Get("Content-Length") != strconv.Itoa(len(a.text)) {
			t.Errorf("%d answers, %s bytes of %d", n, a.Header.Get("Content-Length"), len(a.text))
		}
		h.fake.do = func(_ context.Context, cmds []*fsmpb.Command) []task.Reply {
			<-time.After(2 * headPatience)
			return okReplies(cmds)
		}
		a = h.call("POST", "/v1/batch", body, "Content-Type", ndjsonType)
		if n := len(batchAnswers(t, a.text)); n != 50 || a.Header.Get("Content-Length") != "" {
			t.Errorf("%d answers, length %s", n, a.Header.Get("Content-Length"))
		}
	})
}

// TestSlowBatchOfKnownLengthIsFullDuplex checks that a small batch that arrives slowly is answered line by line.
func TestSlowBatchOfKnownLengthIsFullDuplex(t *testing.T) {
	server := newHarness(t).listen()
	const line = `{"op":"fire","id":"a"}` + "\n"
	body, w := io.Pipe()
	defer w.Close()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server+"/v1/batch", body)
	assert.NoError(t, err)
	r.Header.Set("Content-Type", ndjsonType)
	r.ContentLength = 2 * int64(len(line))
	sent := make(chan error, 1)
	send := func() {
		_, err := io.WriteString(w, line)
		sent <- err
	}
	go send()
	resp, err := http.DefaultClient.Do(r)
	assert.NoError(t, err)
	defer resp.Body.Close()
	answers := bufio.NewReader(resp.Body)
	for i := range 2 {
		if i > 0 {
			go send()
		}
		if text, err := answers.ReadString('\n'); err != nil || !strings.Contains(text, `"status":404`) {
			t.Fatalf("answer %d: %q, %v", i, text, err)
		}
		assert.NoError(t, <-sent)
	}
	if rest, err := io.ReadAll(answers); err != nil || len(rest) > 0 {
		t.Errorf("%q, %v", rest, err)
	}
}
