package delivery

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/internal/assert"
)

// batchOf makes a batch of n tasks with ids task-0… and webhook-ids msg-0….
func batchOf(url string, n int, change ...func(*fsmpb.Task)) []task.Attempt {
	batch := make([]task.Attempt, n)
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
	batch[1].Task.Id, batch[1].Task.Spec.ScheduledMs = "nightly@42", batch[1].Task.FireAtMs-7
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
		`"subject":"nightly@42","time":"2026-11-21T10:00:00.007Z","belfryattempt":2,"belfryfence":"18446744073709551615",` +
		`"belfryschedule":"nightly","belfryoccurrence":"42","belfryscheduled":"2026-11-21T10:00:00.000Z",` +
		`"traceparent":"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",` +
		`"datacontenttype":"application/json","data":{"order": 1042}}]`
	assert.Equal(t, cmp.Diff(body, string(got.body)), "", "body (-want +got)")
	got.header.Del("Accept-Encoding")
	id := batchID(batch)
	want := http.Header{
		"User-Agent": {"belfry/1.2.3"}, "Content-Length": {fmt.Sprint(len(body))}, "X-Shop": {"1"},
		"Content-Type": {"application/cloudevents-batch+json"},
		"Webhook-Id":   {id}, "Webhook-Timestamp": {"1795255201"},
		"Webhook-Signature": {signature(batch[0].Secrets, id, "1795255201", got.body)},
	}
	assert.Equal(t, cmp.Diff(want, got.header), "", "headers (-want +got)")
}

// TestPayloadsInABatch checks that JSON payloads keep their bytes, and that payloads that could make the batch
// unreadable are base64.
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
			assert.Equal(t, got[0].ContentType, task.ContentType(batch[0].Task.Spec), "datacontenttype")
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
	for name, other := range map[string][]task.Attempt{"fewer": batch[:2], "more": batchOf("", 4), "one": batch[:1]} {
		if batchID(other) == id {
			t.Errorf("%s: the same id", name)
		}
	}
}

func TestBatchesWithoutARequest(t *testing.T) {
	w := newWebhook(t)
	if out := w.DeliverBatch(t.Context(), nil); out != nil {
		t.Errorf("no attempts, and outcomes %v", out)
	}
	for name, batch := range map[string][]task.Attempt{
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
# HELP belfry_delivery_attempts_total Webhook attempts that ended, by outcome.
# TYPE belfry_delivery_attempts_total counter
belfry_delivery_attempts_total{result="aborted"} 0
belfry_delivery_attempts_total{result="delivered"} 1
belfry_delivery_attempts_total{result="failed"} 1
belfry_delivery_attempts_total{result="permanent"} 1
`
	assert.Equal(t, testutil.GatherAndCompare(reg, strings.NewReader(want), "belfry_delivery_attempts_total"), nil)
}

// FuzzEvents checks for any task that the batch is JSON and that the task's bytes are unchanged in it.
func FuzzEvents(f *testing.F) {
	f.Add("id", "queue", "application/json", []byte(`{"a": [1, "\""]}`))
	f.Add("\xff\n\"", "</script>", "text/plain", []byte{0xff})
	f.Add("id", "", "", []byte(`{"a":`)) // not JSON, despite its type
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

// toRunes replaces each byte that is not UTF-8 by one replacement character, not each run of them.
func toRunes(s string) string { return string([]rune(s)) }
