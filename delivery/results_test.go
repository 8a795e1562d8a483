package delivery

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/internal/assert"
)

// TestBatchReplies lists replies to a batch of three events, msg-0 to msg-2, and the outcomes of each.
func TestBatchReplies(t *testing.T) {
	const cut = "the answer's results are malformed, cut short or over 65 KiB"
	const lost = "the answer's body is cut short, so its results of the events are not known"
	ok := task.Outcome{Delivered: true}
	fails := func(text string) task.Outcome { return task.Outcome{Error: text} }
	refused := func(text string) task.Outcome { return task.Outcome{Refused: true, Error: text} }
	unnamed := fails("the answer has results, and none of this event")
	all := func(out task.Outcome) []task.Outcome { return []task.Outcome{out, out, out} }
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
		want  []task.Outcome
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
		"a name in capitals":  {says(`{"Results":[{"Id":"msg-0","Status":200}]}`), []task.Outcome{ok, unnamed, unnamed}},
		"none":                {list(""), all(unnamed)},
		"null":                {says(`{"results":null}`), all(unnamed)},
		"one is missing":      {list(r0 + "," + r2), []task.Outcome{ok, unnamed, ok}},
		"strangers":           {list(r0 + `,{"id":"msg-9","status":500},{"status":200},{}`), []task.Outcome{ok, unnamed, unnamed}},
		"twice, failed first": {list(`{"id":"msg-0","status":500},` + r0), []task.Outcome{fails("500 Internal Server Error"), unnamed, unnamed}},
		"twice, failed last":  {list(r0 + `,{"id":"msg-0","status":500}`), []task.Outcome{fails("500 Internal Server Error"), unnamed, unnamed}},
		"each its own": {list(r0 + `,{"id":"msg-1","status":503,"retry_after":1.5,"error":"full\n\u202e"},{"id":"msg-2","status":410,"error":"left"}`),
			[]task.Outcome{ok, {RetryAfter: 1500 * time.Millisecond, Error: "503 Service Unavailable: full"},
				{Permanent: true, Refused: true, Error: "410 Gone: left"}}},
		"odd statuses": {list(`{"id":"msg-0","status":302},{"id":"msg-1"},{"id":"msg-2","status":-7,"error":"x"}`),
			[]task.Outcome{refused("302 Found"), fails("the event's result has no status"), fails("-7: x")}},
		"odd waits": {list(`{"id":"msg-0","status":429,"retry_after":-5},{"id":"msg-1","status":429,"retry_after":1e300},` +
			`{"id":"msg-2","status":200,"retry_after":5}`),
			[]task.Outcome{fails("429 Too Many Requests"), {RetryAfter: 24 * time.Hour, Error: "429 Too Many Requests"}, ok}},
		"long errors": {list(`{"id":"msg-0","status":500,"error":"` + strings.Repeat("x", 900) + `"},` + r1 + "," + r2),
			[]task.Outcome{fails("500 Internal Server Error: " + strings.Repeat("x", 199)), ok, ok}},
		"cut after one":    {says(`{"results":[` + r0 + `,{"id":"msg-1","sta`), []task.Outcome{ok, fails(cut), fails(cut)}},
		"not closed":       {says(`{"results":[` + r0 + "," + r1 + "," + r2 + "]"), all(ok)},
		"short":            {raw("HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n{\"results\":[" + r0), []task.Outcome{ok, fails(cut), fails(cut)}},
		"a brace only":     {says(`{`), all(fails(cut))},
		"no JSON":          {says(`{results: 1}`), all(fails(cut))},
		"no list":          {says(`{"results":{"msg-0":200}}`), all(fails(cut))},
		"wrong types":      {list(`{"id":"msg-0","status":"200"},` + r1), all(fails(cut))},
		"status over all":  {list(`{"id":"msg-0","status":1e400}`), all(fails(cut))},
		"10 MB of results": {huge(200, `{"results":[`+strings.Repeat(r0+",", 99)), []task.Outcome{ok, fails(cut), fails(cut)}},
		"10 MB of an id":   {huge(200, `{"results":[{"id":"`+strings.Repeat("x", 1000)), all(fails(cut))},
		"10 MB of depth":   {huge(200, `{"a":`), all(fails(cut))},

		"500": {answer(500, nil, "it broke"), all(fails("500 Internal Server Error: it broke"))},
		"503 with Retry-After": {answer(503, map[string]string{"Retry-After": "7"}, ""),
			all(task.Outcome{RetryAfter: 7 * time.Second, Error: "503 Service Unavailable"})},
		"410":               {answer(410, nil, ""), all(task.Outcome{Permanent: true, Refused: true, Error: "410 Gone"})},
		"500 with results":  {answer(500, nil, `{"results":[`+r0+`]}`), all(fails(`500 Internal Server Error: {"results":[` + r0 + `]}`))},
		"302":               {answer(302, map[string]string{"Location": "http://10.0.0.1/"}, ""), all(refused("302 Found: redirects are not followed (to http://10.0.0.1/)"))},
		"closes unanswered": {raw(""), all(fails("the receiver closed the connection without an answer"))},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url, _ := batchReceiver(t, test.reply)
			got := newWebhook(t).DeliverBatch(t.Context(), batchOf(url, 3))
			assert.Equal(t, cmp.Diff(test.want, got), "", "outcomes (-want +got)")
		})
	}
}

// huge answers with 10 MB of repetitions of the text what.
func huge(status int, text string) http.HandlerFunc {
	return func(rw http.ResponseWriter, _ *http.Request) {
		rw.WriteHeader(status)
		for sent := 0; sent < 10<<20; sent += len(text) {
			if _, err := io.WriteString(rw, text); err != nil {
				return
			}
		}
	}
}

// TestLargestBatch checks that a thousand results fit into the limit of a reply.
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
	assert.MustEqual(t, len(outcomes), n, "outcomes")
	for i, out := range outcomes {
		if out.RetryAfter != 24*time.Hour || !strings.HasPrefix(out.Error, "503") {
			t.Fatalf("event %d: %+v", i, out)
		}
	}
}

// TestSlowBatchReplies checks that only a list of results may take the attempt's whole time; other bodies may not.
func TestSlowBatchReplies(t *testing.T) {
	const timeout = 400 * time.Millisecond
	late := task.Outcome{Error: "timed out after 400ms (reading the answer)"}
	ok := task.Outcome{Delivered: true}
	tests := map[string]struct {
		begin string
		want  []task.Outcome
	}{
		"hangs before the body": {"", []task.Outcome{late, late}},
		"hangs in the results":  {`{"results":[{"id":"msg-0","status":200},`, []task.Outcome{ok, late}},
		"hangs in a text":       {"fine", []task.Outcome{ok, ok}},
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
			batch[1].Timeout = timeout // the request takes the shortest timeout
			got := newWebhook(t).DeliverBatch(t.Context(), batch)
			assert.Equal(t, cmp.Diff(test.want, got), "", "outcomes (-want +got)")
			<-gone
		})
	}
}

// FuzzBatchReply checks for any reply body that each event has a valid outcome.
func FuzzBatchReply(f *testing.F) {
	for _, seed := range []string{
		"", "fine", `{"results":[{"id":"msg-0","status":200},{"id":"msg-1","status":503,"retry_after":1e9,"error":"x"}]}`,
		`{"a":[{}],"results":null,"results":[{"id":"msg-1","status":410}]}`, `{"results":[{"id":"msg-0","status":200},`,
		"{}", ` {"a":1,`, ` {"results":{}}`, "{\n\t\"results\": []}",
		`{"results":[{"id":"x"},{"id":"msg-0"},{"id":"msg-1","status":"2"}]}`,
		`{"results":[{"id":"msg-1","status":200},{"id":"msg-1","status":500}]}`,
	} {
		f.Add(seed)
	}
	w := newWebhook(f)
	batch := batchOf("", 2)
	f.Fuzz(func(t *testing.T, body string) {
		x := w.begin(t.Context(), time.Minute)
		defer x.end()
		resp := &http.Response{StatusCode: 200, Body: io.NopCloser(strings.NewReader(body))}
		all, verdicts := x.answeredBatch(resp, batch)
		if verdicts == nil {
			verdicts = []verdict{all, all}
		}
		for _, v := range verdicts {
			checkOutcome(t, v.Outcome)
		}
	})
}
