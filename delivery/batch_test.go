package delivery

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/belfryhq/belfry/fsm"
	"github.com/belfryhq/belfry/fsm/fsmpb"
)

// batchOf makes a batch of n tasks with ids task-0… and webhook ids msg-0….
func batchOf(url string, n int, change ...func(*fsmpb.Task)) []fsm.Attempt {
	batch := make([]fsm.Attempt, n)
	for i := range batch {
		batch[i] = attemptOf(url, change...)
		batch[i].Task.Id = fmt.Sprintf("task-%d", i)
		batch[i].Task.WebhookId = fmt.Sprintf("msg-%d", i)
	}
	return batch
}

// received is a request to a receiver of batches.
type received struct {
	header http.Header
	body   []byte
}

func batchReceiver(t testing.TB, reply http.HandlerFunc) (string, <-chan received) {
	requests := make(chan received, 10)
	url := serve(t, func(rw http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		requests <- received{r.Header, body}
		reply(rw, r)
	})
	return url, requests
}

func TestBatchRequest(t *testing.T) {
	now := time.Unix(1795255201, 999e6)
	w := newWebhook(t, func(c *Config) { c.Now = func() time.Time { return now } })
	url, requests := batchReceiver(t, answer(204, nil, ""))
	batch := batchOf(url, 2, func(task *fsmpb.Task) {
		task.Spec.Queue = "mail"
		task.Spec.Target.Headers = []*fsmpb.Header{{Name: "x-shop", Value: "1"}, {Name: "webhook-id", Value: "forged"}}
	})
	batch[1].Task.Fence = 1<<64 - 1
	batch[1].Task.Spec.Traceparent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	batch[0].Secrets = [][]byte{secretOf(t, secretA)}
	for _, out := range w.DeliverBatch(t.Context(), batch) {
		if !out.Delivered {
			t.Fatalf("outcome %+v", out)
		}
	}
	got := <-requests
	const body = `[{"specversion":"1.0","id":"msg-0","type":"belfry.task.fired","source":"/v1/queues/mail",` +
		`"subject":"task-0","time":"2026-11-21T10:00:00.007Z","belfryattempt":2,"belfryfence":"8842",` +
		`"datacontenttype":"application/json","data":{"order": 1042}},` + "\n" +
		`{"specversion":"1.0","id":"msg-1","type":"belfry.task.fired","source":"/v1/queues/mail",` +
		`"subject":"task-1","time":"2026-11-21T10:00:00.007Z","belfryattempt":2,"belfryfence":"18446744073709551615",` +
		`"traceparent":"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",` +
		`"datacontenttype":"application/json","data":{"order": 1042}}]`
	if diff := cmp.Diff(body, string(got.body)); diff != "" {
		t.Errorf("body (-want +got):\n%s", diff)
	}
	got.header.Del("Accept-Encoding")
	id := batchID(batch)
	want := http.Header{
		"User-Agent": {"belfry/1.2.3"}, "Content-Length": {fmt.Sprint(len(body))}, "X-Shop": {"1"},
		"Content-Type": {"application/cloudevents-batch+json"},
		"Webhook-Id":   {id}, "Webhook-Timestamp": {"1795255201"},
		"Webhook-Signature": {signature(batch[0].Secrets, id, "1795255201", got.body)},
	}
	if diff := cmp.Diff(want, got.header); diff != "" {
		t.Errorf("headers (-want +got):\n%s", diff)
	}
}

// TestPayloadsInABatch: JSON keeps its bytes, and whatever could make the batch unreadable is base64.
func TestPayloadsInABatch(t *testing.T) {
	deep := strings.Repeat("[", maxNesting) + strings.Repeat("]", maxNesting)
	tests := map[string]struct {
		contentType, payload string
		embedded             bool
	}{
		"spaces, digits, order": {"", "{ \"b\" :1,\n\"a\":2.50e0, \"b\": 12345678901234567890 }", true},
		"spaces around":         {"", "\n 1 ", true},
		"escapes":               {"", `"<\u0041\ud83d\ude00\\\"[[["`, true},
		"null":                  {"", "null", true},
		"a suffix":              {"application/vnd.shop+json; charset=utf-8", "[1]", true},
		"text/json":             {"text/json", "[1]", true},
		"deep":                  {"", deep, true},
		"too deep":              {"", "[" + deep + "]", false},
		"brackets in a string":  {"", `"` + strings.Repeat(`[\"`, 100) + `"`, true},
		"no JSON after all":     {"", "{", false},
		"two values":            {"", "1 2", false},
		"NaN":                   {"", "NaN", false},
		"byte order mark":       {"", "\ufeff1", false},
		"UTF-16":                {"application/json", "\x00\"\x00a\x00\"", false},
		"broken UTF-8":          {"", "\"\xff\"", false},
		"spaces only":           {"", "  ", false},
		"closes the array":      {"", "1}]", false},
		"text":                  {"text/plain", "hello", false},
		"text that is JSON":     {"text/plain", "1", false},
		"XML":                   {"application/xml", "<a/>", false},
		"bytes":                 {"application/octet-stream", "\x00\xff\r\n", false},
		"malformed type":        {"application/json; =", "1", false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			batch := batchOf("", 1, func(task *fsmpb.Task) {
				task.Spec.Payload, task.Spec.ContentType = []byte(test.payload), test.contentType
			})
			var got []struct {
				ContentType string          `json:"datacontenttype"`
				Data        json.RawMessage `json:"data"`
				Base64      *string         `json:"data_base64"`
			}
			body := events(batch)
			if err := json.Unmarshal(body, &got); err != nil || len(got) != 1 {
				t.Fatalf("%v: %s", err, body)
			}
			if got[0].ContentType != contentType(batch[0].Task.Spec) {
				t.Errorf("datacontenttype %q", got[0].ContentType)
			}
			if embedded := got[0].Base64 == nil; embedded != test.embedded {
				t.Fatalf("embedded: %v: %s", embedded, body)
			}
			if test.embedded {
				if !strings.HasSuffix(string(body), `"data":`+test.payload+"}]") {
					t.Errorf("other bytes: %s", body)
				}
				return
			}
			if want := base64.StdEncoding.EncodeToString([]byte(test.payload)); *got[0].Base64 != want || got[0].Data != nil {
				t.Errorf("data_base64 %q, want %q", *got[0].Base64, want)
			}
		})
	}
}

func TestNoPayloadInABatch(t *testing.T) {
	body := events(batchOf("", 1, func(task *fsmpb.Task) { task.Spec.Payload = nil; task.Spec.ContentType = "a/b" }))
	if strings.Contains(string(body), "data") || !json.Valid(body) {
		t.Errorf("%s", body)
	}
}

func TestBatchID(t *testing.T) {
	batch := batchOf("", 3)
	id := batchID(batch)
	if len(id) != len("batch_")+26 || strings.Contains(id, ".") {
		t.Errorf("id %q", id)
	}
	same := slices.Clone(batch)
	slices.Reverse(same)
	for i := range same {
		same[i] = attemptOf("", func(task *fsmpb.Task) {
			task.WebhookId, task.Fence, task.Attempts = same[i].Task.WebhookId, 99, 7
		})
	}
	if got := batchID(same); got != id {
		t.Errorf("the same events again: %s, then %s", id, got)
	}
	for name, other := range map[string][]fsm.Attempt{"fewer": batch[:2], "more": batchOf("", 4), "one": batch[:1]} {
		if batchID(other) == id {
			t.Errorf("%s: the same id", name)
		}
	}
}

// TestBatchReplies has a batch of three events, msg-0 to msg-2, and what each reply makes of them.
func TestBatchReplies(t *testing.T) {
	const cut = "the answer's results are malformed, cut short or over 65 KiB"
	const lost = "the answer's body is cut short, so what it says of the events is not known"
	ok := fsm.Outcome{Delivered: true}
	fails := func(text string) fsm.Outcome { return fsm.Outcome{Error: text} }
	unnamed := fails("the answer has results, and none of this event")
	all := func(out fsm.Outcome) []fsm.Outcome { return []fsm.Outcome{out, out, out} }
	list := func(results string) http.HandlerFunc {
		return answer(207, map[string]string{"Content-Type": "application/json"}, `{"results":[`+results+`]}`)
	}
	says := func(body string) http.HandlerFunc { return answer(200, nil, body) }
	raw := func(reply string) http.HandlerFunc {
		return func(rw http.ResponseWriter, _ *http.Request) {
			if c, _, err := rw.(http.Hijacker).Hijack(); err == nil {
				write(c, reply)
				_ = c.Close()
			}
		}
	}
	const r0, r1, r2 = `{"id":"msg-0","status":200}`, `{"id":"msg-1","status":202}`, `{"id":"msg-2","status":299}`
	tests := map[string]struct {
		reply http.HandlerFunc
		want  []fsm.Outcome
	}{
		"204":                 {answer(204, nil, ""), all(ok)},
		"200, empty":          {answer(200, nil, ""), all(ok)},
		"200, text":           {says("fine {"), all(ok)},
		"200, typed as JSON":  {answer(200, map[string]string{"Content-Type": "application/json"}, "fine"), all(ok)},
		"200, other JSON":     {says(` {"status": 500, "error": ["x"]} `), all(ok)},
		"200, an array":       {says(`[{"id":"msg-0","status":500}]`), all(ok)},
		"207, spaces":         {answer(207, nil, " \r\n\t"), all(ok)},
		"text cut short":      {raw("HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nhello"), all(ok)},
		"10 MB of text":       {huge(200, "x"), all(ok)},
		"10 MB of spaces":     {huge(200, " "), all(ok)},
		"no body at all":      {raw("HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\n"), all(fails(lost))},
		"all of them":         {list(r2 + "," + r0 + "," + r1), all(ok)},
		"after something":     {says(`{"took":{"ms":[1]},"results":[` + r0 + "," + r1 + "," + r2 + `],"x":1}`), all(ok)},
		"a name in capitals":  {says(`{"Results":[{"Id":"msg-0","Status":200}]}`), []fsm.Outcome{ok, unnamed, unnamed}},
		"none":                {list(""), all(unnamed)},
		"null":                {says(`{"results":null}`), all(unnamed)},
		"one is missing":      {list(r0 + "," + r2), []fsm.Outcome{ok, unnamed, ok}},
		"strangers":           {list(r0 + `,{"id":"msg-9","status":500},{"status":200},{}`), []fsm.Outcome{ok, unnamed, unnamed}},
		"twice, failed first": {list(`{"id":"msg-0","status":500},` + r0), []fsm.Outcome{fails("500 Internal Server Error"), unnamed, unnamed}},
		"twice, failed last":  {list(r0 + `,{"id":"msg-0","status":500}`), []fsm.Outcome{fails("500 Internal Server Error"), unnamed, unnamed}},
		"each its own": {list(r0 + `,{"id":"msg-1","status":503,"retry_after":1.5,"error":"full\n\u202e"},{"id":"msg-2","status":410,"error":"left"}`),
			[]fsm.Outcome{ok, {RetryAfter: 1500 * time.Millisecond, Error: "503 Service Unavailable: full"},
				{Permanent: true, Error: "410 Gone: left"}}},
		"odd statuses": {list(`{"id":"msg-0","status":302},{"id":"msg-1"},{"id":"msg-2","status":-7,"error":"x"}`),
			[]fsm.Outcome{fails("302 Found"), fails("the event's result has no status"), fails("-7: x")}},
		"odd waits": {list(`{"id":"msg-0","status":429,"retry_after":-5},{"id":"msg-1","status":429,"retry_after":1e300},` +
			`{"id":"msg-2","status":200,"retry_after":5}`),
			[]fsm.Outcome{fails("429 Too Many Requests"), {RetryAfter: 24 * time.Hour, Error: "429 Too Many Requests"}, ok}},
		"long errors": {list(`{"id":"msg-0","status":500,"error":"` + strings.Repeat("x", 900) + `"},` + r1 + "," + r2),
			[]fsm.Outcome{fails("500 Internal Server Error: " + strings.Repeat("x", 199)), ok, ok}},
		"cut after one":    {says(`{"results":[` + r0 + `,{"id":"msg-1","sta`), []fsm.Outcome{ok, fails(cut), fails(cut)}},
		"not closed":       {says(`{"results":[` + r0 + "," + r1 + "," + r2 + "]"), all(ok)},
		"short":            {raw("HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n{\"results\":[" + r0), []fsm.Outcome{ok, fails(cut), fails(cut)}},
		"a brace only":     {says(`{`), all(fails(cut))},
		"no JSON":          {says(`{results: 1}`), all(fails(cut))},
		"no list":          {says(`{"results":{"msg-0":200}}`), all(fails(cut))},
		"wrong types":      {list(`{"id":"msg-0","status":"200"},` + r1), all(fails(cut))},
		"status over all":  {list(`{"id":"msg-0","status":1e400}`), all(fails(cut))},
		"10 MB of results": {huge(200, `{"results":[`+strings.Repeat(r0+",", 99)), []fsm.Outcome{ok, fails(cut), fails(cut)}},
		"10 MB of an id":   {huge(200, `{"results":[{"id":"`+strings.Repeat("x", 1000)), all(fails(cut))},
		"10 MB of depth":   {huge(200, `{"a":`), all(fails(cut))},

		"500": {answer(500, nil, "it broke"), all(fails("500 Internal Server Error: it broke"))},
		"503 with Retry-After": {answer(503, map[string]string{"Retry-After": "7"}, ""),
			all(fsm.Outcome{RetryAfter: 7 * time.Second, Error: "503 Service Unavailable"})},
		"410":               {answer(410, nil, ""), all(fsm.Outcome{Permanent: true, Error: "410 Gone"})},
		"500 with results":  {answer(500, nil, `{"results":[`+r0+`]}`), all(fails(`500 Internal Server Error: {"results":[` + r0 + `]}`))},
		"302":               {answer(302, map[string]string{"Location": "http://10.0.0.1/"}, ""), all(fails("302 Found: redirects are not followed (to http://10.0.0.1/)"))},
		"closes unanswered": {raw(""), all(fails("the receiver closed the connection without an answer"))},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url, _ := batchReceiver(t, test.reply)
			got := newWebhook(t).DeliverBatch(t.Context(), batchOf(url, 3))
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("outcomes (-want +got):\n%s", diff)
			}
		})
	}
}

// huge answers with 10 MB: what it begins with, over and over.
func huge(status int, what string) http.HandlerFunc {
	return func(rw http.ResponseWriter, _ *http.Request) {
		rw.WriteHeader(status)
		for sent := 0; sent < 10<<20; sent += len(what) {
			if _, err := io.WriteString(rw, what); err != nil {
				return
			}
		}
	}
}

// TestLargestBatch: a thousand results are well within what is read.
func TestLargestBatch(t *testing.T) {
	const n = 1000
	url, _ := batchReceiver(t, func(rw http.ResponseWriter, _ *http.Request) {
		var results []map[string]any
		for i := range n {
			results = append(results, map[string]any{
				"id": fmt.Sprintf("msg-%d", i), "status": 503, "retry_after": 86400, "error": strings.Repeat("é", 150)})
		}
		_ = json.NewEncoder(rw).Encode(map[string]any{"results": results})
	})
	outcomes := newWebhook(t).DeliverBatch(t.Context(), batchOf(url, n))
	if len(outcomes) != n {
		t.Fatalf("%d outcomes", len(outcomes))
	}
	for i, out := range outcomes {
		if out.RetryAfter != 24*time.Hour || !strings.HasPrefix(out.Error, "503") {
			t.Fatalf("event %d: %+v", i, out)
		}
	}
}

// TestSlowBatchReplies: a list of results may take the attempt's time, and any other body does not.
func TestSlowBatchReplies(t *testing.T) {
	const timeout = 400 * time.Millisecond
	late := fsm.Outcome{Error: "timed out after 400ms (reading the answer)"}
	ok := fsm.Outcome{Delivered: true}
	tests := map[string]struct {
		begin string
		want  []fsm.Outcome
	}{
		"hangs before the body": {"", []fsm.Outcome{late, late}},
		"hangs in the results":  {`{"results":[{"id":"msg-0","status":200},`, []fsm.Outcome{ok, late}},
		"hangs in a text":       {"fine", []fsm.Outcome{ok, ok}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			gone := make(chan struct{})
			url := serveRaw(t, func(c net.Conn) {
				write(c, "HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n"+test.begin)
				untilGone(c)
				close(gone)
			})
			batch := batchOf(url, 2)
			batch[1].Timeout = timeout // the shortest is that of all
			got := newWebhook(t).DeliverBatch(t.Context(), batch)
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("outcomes (-want +got):\n%s", diff)
			}
			<-gone
		})
	}
}

func TestBatchesWithoutARequest(t *testing.T) {
	w := newWebhook(t)
	if out := w.DeliverBatch(t.Context(), nil); out != nil {
		t.Errorf("no attempts, and outcomes %v", out)
	}
	for name, batch := range map[string][]fsm.Attempt{
		"no target": {{Task: &fsmpb.Task{}}, {Task: &fsmpb.Task{}}},
		"refused":   batchOf("http://10.0.0.1/", 2),
		"not a URL": batchOf("http://[::1", 2),
	} {
		out := w.DeliverBatch(t.Context(), batch)
		if len(out) != 2 || !out[0].Permanent || out[0] != out[1] {
			t.Errorf("%s: %+v", name, out)
		}
	}
	w.Close()
	out := w.DeliverBatch(t.Context(), batchOf("http://127.0.0.1:1/", 2))
	if len(out) != 2 || !strings.HasPrefix(out[1].Error, "aborted") || out[1].Permanent {
		t.Errorf("closed: %+v", out)
	}
}

func TestBatchMetrics(t *testing.T) {
	reg := prometheus.NewRegistry()
	w := newWebhook(t, func(c *Config) { c.Registerer = reg })
	url, _ := batchReceiver(t, answer(207, nil, `{"results":[{"id":"msg-0","status":200},{"id":"msg-1","status":410}]}`))
	w.DeliverBatch(t.Context(), batchOf(url, 3))
	const want = `
# HELP belfry_delivery_attempts_total Webhook attempts that ended, by what came of them.
# TYPE belfry_delivery_attempts_total counter
belfry_delivery_attempts_total{result="aborted"} 0
belfry_delivery_attempts_total{result="delivered"} 1
belfry_delivery_attempts_total{result="failed"} 1
belfry_delivery_attempts_total{result="permanent"} 1
`
	if err := testutil.GatherAndCompare(reg, strings.NewReader(want), "belfry_delivery_attempts_total"); err != nil {
		t.Error(err)
	}
}

// FuzzBatchReply: whatever a reply's body is, each event has an outcome that makes sense.
func FuzzBatchReply(f *testing.F) {
	for _, seed := range []string{
		"", "fine", `{"results":[{"id":"msg-0","status":200},{"id":"msg-1","status":503,"retry_after":1e9,"error":"x"}]}`,
		`{"a":[{}],"results":null,"results":[{"id":"msg-1","status":410}]}`, `{"results":[{"id":"msg-0","status":200},`,
	} {
		f.Add(seed)
	}
	w := newWebhook(f)
	batch := batchOf("", 2)
	f.Fuzz(func(t *testing.T, body string) {
		x := w.begin(t.Context(), time.Minute)
		defer x.end()
		resp := &http.Response{StatusCode: 200, Body: io.NopCloser(strings.NewReader(body))}
		all, each := x.answeredBatch(resp, batch)
		if each == nil {
			each = []verdict{all, all}
		}
		for _, v := range each {
			checkOutcome(t, v.Outcome)
		}
	})
}

// FuzzEvents: whatever is in a task, the batch is JSON, and the task's bytes come out of it as they were.
func FuzzEvents(f *testing.F) {
	f.Add("id", "queue", "application/json", []byte(`{"a": [1, "\""]}`))
	f.Add("\xff\n\"", "</script>", "text/plain", []byte{0xff})
	f.Fuzz(func(t *testing.T, id, queue, contentType string, payload []byte) {
		batch := batchOf("", 2, func(task *fsmpb.Task) {
			task.Spec.Queue, task.Spec.ContentType, task.Spec.Payload = queue, contentType, payload
		})
		batch[1].Task.Id = id
		var got []struct {
			Subject string          `json:"subject"`
			Data    json.RawMessage `json:"data"`
			Base64  []byte          `json:"data_base64"`
		}
		if err := json.Unmarshal(events(batch), &got); err != nil || len(got) != 2 {
			t.Fatalf("%v: %s", err, events(batch))
		}
		if got[1].Subject != strings.ToValidUTF8(id, "\uFFFD") && got[1].Subject != toRunes(id) {
			t.Errorf("subject %q, sent %q", got[1].Subject, id)
		}
		data := got[1].Base64
		if got[1].Data != nil {
			data = got[1].Data
			payload = []byte(strings.Trim(string(payload), " \t\r\n"))
		}
		if string(data) != string(payload) {
			t.Errorf("payload %q, sent %q", data, payload)
		}
	})
}

// toRunes has a replacement character for each byte that is not UTF-8, not for each run of them.
func toRunes(s string) string { return string([]rune(s)) }
