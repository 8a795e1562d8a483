package interop

import (
	"encoding/base64"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/internal/assert"
)

const (
	asked = "BELFRY_INTEROP" // the environment variable that make test-interop sets
	trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
)

var (
	oldSecret   = []byte("the secret until the rotation")
	newSecret   = []byte("the secret after the rotation!!!")
	wrongSecret = []byte("somebody else's own secret")
)

// startKnowing runs a receiver with the three secrets, or skips the test.
func startKnowing(t *testing.T) *receiver {
	if os.Getenv(asked) == "" {
		t.Skip("this needs Node.js and two npm packages: run it with `make test-interop`")
	}
	known := map[string]string{}
	for name, secret := range map[string][]byte{"old": oldSecret, "new": newSecret, "wrong": wrongSecret} {
		known[name] = "whsec_" + base64.StdEncoding.EncodeToString(secret)
	}
	return start(t, known)
}

func attemptOf(url string, change ...func(*fsmpb.Task)) task.Attempt {
	due := &fsmpb.Task{
		Id:        "order-1042-close",
		Spec:      &fsmpb.Spec{Payload: []byte(`{"order": 1042}`), Target: &fsmpb.Target{Url: url}},
		FireAtMs:  time.Date(2026, 11, 21, 10, 0, 0, 7e6, time.UTC).UnixMilli(),
		Attempts:  2,
		Fence:     1<<64 - 1,
		WebhookId: "msg_00f1",
	}
	for _, c := range change {
		c(due)
	}
	return task.Attempt{Task: due, Timeout: 30 * time.Second, Secrets: [][]byte{newSecret}}
}

// eventOf returns the event that a receiver should read from a task with a JSON payload.
func eventOf(task *fsmpb.Task, data string) event {
	return event{
		SpecVersion: "1.0", ID: task.WebhookId, Type: "belfry.task.fired", Source: "/v1/queues/default",
		Subject: task.Id, Time: "2026-11-21T10:00:00.007Z", DataContentType: "application/json", Data: data,
	}
}

func TestRotation(t *testing.T) {
	r, w := startKnowing(t), newWebhook(t)
	both, one := [][]byte{newSecret, oldSecret}, [][]byte{newSecret}
	tests := []struct {
		name, knows string
		secrets     [][]byte
		delivered   bool
	}{
		{"both signed, old known", "old", both, true},
		{"both signed, new known", "new", both, true},
		{"both signed, another known", "wrong", both, false},
		{"new signed, new known", "new", one, true},
		{"new signed, old known", "old", one, false},
		{"unsigned", "new", nil, false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			a := attemptOf(r.url + test.knows)
			a.Secrets = test.secrets
			single := w.Deliver(t.Context(), a)
			batch := w.DeliverBatch(t.Context(), []task.Attempt{a})[0]
			for name, out := range map[string]task.Outcome{"single": single, "batch": batch} {
				if out.Delivered != test.delivered || !out.Delivered && !strings.HasPrefix(out.Error, "401 ") {
					t.Errorf("%s: %+v", name, out)
				}
				if out.Delivered {
					assert.Equal(t, r.accepted(t).VerifiedBy, "standardwebhooks", "%s: verified by", name)
				}
			}
		})
	}
}

func TestBinaryMode(t *testing.T) {
	r, w := startKnowing(t), newWebhook(t)
	tests := []struct {
		name     string
		change   func(*fsmpb.Task)
		want     func(*event)
		verifier string
	}{
		{"plain", func(*fsmpb.Task) {}, func(*event) {}, "standardwebhooks"},
		{"odd ids", func(task *fsmpb.Task) { task.Id, task.Spec.Queue = `a "b" 100% €😀`, "mail:eu~1" },
			func(e *event) { e.Source = "/v1/queues/mail:eu~1" }, "standardwebhooks"},
		{"no payload", func(task *fsmpb.Task) { task.Spec.Payload = nil },
			func(e *event) { e.DataContentType, e.Data = "", "" }, "standardwebhooks"},
		{"spaces and escapes", func(task *fsmpb.Task) { task.Spec.Payload = []byte("{ \"a\" :\n[1, \"\\u20ac €\"] }\n") },
			func(e *event) { e.Data = `{"a":[1,"€ €"]}` }, "standardwebhooks"},
		{"text", func(task *fsmpb.Task) { task.Spec.ContentType, task.Spec.Payload = "text/plain", []byte("hi é") },
			func(e *event) { e.DataContentType, e.Data = "text/plain", `"hi é"` }, "standardwebhooks"},
		{"bytes", func(task *fsmpb.Task) {
			task.Spec.ContentType, task.Spec.Payload = "application/octet-stream", []byte{0, 0xff, '\r', '\n', 0x80}
		}, func(e *event) {
			e.DataContentType, e.Data, e.Base64 = "application/octet-stream", "", []byte{0, 0xff, '\r', '\n', 0x80}
		}, "hmac"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			a := attemptOf(r.url+"new", test.change, func(task *fsmpb.Task) { task.Spec.Traceparent = trace })
			if out := w.Deliver(t.Context(), a); !out.Delivered {
				t.Fatalf("outcome %+v", out)
			}
			got := r.accepted(t)
			want := eventOf(a.Task, `{"order":1042}`)
			test.want(&want)
			if diff := cmp.Diff([]event{want}, got.Events); diff != "" || got.Batch {
				t.Errorf("batch: %v, event (-want +got):\n%s", got.Batch, diff)
			}
			assert.Equal(t, got.VerifiedBy, test.verifier, "verified by")
			for name, value := range map[string]string{
				"traceparent": trace, "belfry-attempt": "2", "belfry-fence": strconv.FormatUint(1<<64-1, 10),
				"webhook-id": a.Task.WebhookId, "belfry-due": want.Time,
			} {
				assert.Equal(t, got.Headers[name], value, "%s", name)
			}
		})
	}
}

func TestBatch(t *testing.T) {
	r, w := startKnowing(t), newWebhook(t)
	numbered := func(n int) func(*fsmpb.Task) {
		return func(task *fsmpb.Task) { task.WebhookId = fmt.Sprintf("msg_%d", n) }
	}
	payload := func(contentType, payload string) func(*fsmpb.Task) {
		return func(task *fsmpb.Task) { task.Spec.ContentType, task.Spec.Payload = contentType, []byte(payload) }
	}
	deep := strings.Repeat("[", 2000) + strings.Repeat("]", 2000)
	url := r.url + "old"
	batch := []task.Attempt{
		attemptOf(url, numbered(0), payload("", "{ \"a\" : 1.50 }")),
		attemptOf(url, numbered(1), payload("", `{"answer": {"status": 503, "retry_after": 7, "error": "full"}}`)),
		attemptOf(url, numbered(2), payload("", `{"answer": {"status": 410}}`)),
		attemptOf(url, numbered(3), payload("application/octet-stream", "\x00\xff")),
		attemptOf(url, numbered(4), payload("", "")),
		attemptOf(url, numbered(5), func(task *fsmpb.Task) { task.Id = "a \"b\" \x01 100% €😀\u2028"; task.Spec.Traceparent = trace }),
		attemptOf(url, numbered(6), payload("", "{broken")),
		attemptOf(url, numbered(7), payload("application/vnd.shop+json", deep)),
		attemptOf(url, numbered(8), payload("", "null")),
	}
	for i := range batch {
		batch[i].Secrets = [][]byte{newSecret, oldSecret}
	}
	outcomes := w.DeliverBatch(t.Context(), batch)
	ok := task.Outcome{Delivered: true}
	wantOutcomes := []task.Outcome{ok, {RetryAfter: 7 * time.Second, Error: "503 Service Unavailable: full"},
		{Permanent: true, Error: "410 Gone"}, ok, ok, ok, ok, ok, ok}
	assert.MustEqual(t, cmp.Diff(wantOutcomes, outcomes), "", "outcomes (-want +got)")
	want := make([]event, len(batch))
	for i, data := range []string{`{"a":1.5}`, `{"answer":{"status":503,"retry_after":7,"error":"full"}}`,
		`{"answer":{"status":410}}`, "", "", `{"order":1042}`, "", "", "null"} {
		want[i] = eventOf(batch[i].Task, data)
		want[i].Attempt, want[i].Fence = 2, "18446744073709551615"
	}
	want[3].DataContentType, want[3].Base64 = "application/octet-stream", []byte{0, 0xff}
	want[4].DataContentType = ""
	want[5].Traceparent = trace
	want[6].Base64 = []byte("{broken")
	want[7].DataContentType, want[7].Base64 = "application/vnd.shop+json", []byte(deep)
	got := r.accepted(t)
	if diff := cmp.Diff(want, got.Events); diff != "" || !got.Batch {
		t.Errorf("batch: %v, events (-want +got):\n%s", got.Batch, diff)
	}
	if got.VerifiedBy != "standardwebhooks" || !strings.HasPrefix(got.Headers["webhook-id"], "batch_") {
		t.Errorf("verified by %s, webhook-id %q", got.VerifiedBy, got.Headers["webhook-id"])
	}
}

// TestLargeBatch delivers the largest batch that a queue can ask for.
func TestLargeBatch(t *testing.T) {
	const n = 1000
	r, w := startKnowing(t), newWebhook(t)
	batch := make([]task.Attempt, n)
	for i := range batch {
		batch[i] = attemptOf(r.url+"new", func(task *fsmpb.Task) { task.WebhookId = fmt.Sprintf("msg_%d", i) })
	}
	for i, out := range w.DeliverBatch(t.Context(), batch) {
		if !out.Delivered {
			t.Fatalf("event %d: %+v", i, out)
		}
	}
	if got := r.accepted(t); len(got.Events) != n || got.Events[n-1].ID != "msg_999" {
		t.Errorf("%d events", len(got.Events))
	}
}
