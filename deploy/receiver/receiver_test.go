package receiver

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/belfryhq/belfry/internal/assert"
)

func TestArrival(t *testing.T) {
	var got Arrival
	handler := Handler(func(a Arrival) int { got = a; return http.StatusTeapot })
	r := httptest.NewRequest("POST", "/hook", strings.NewReader(`{"n": 1}`))
	for name, value := range map[string]string{
		"ce-subject": "order-1", "webhook-id": "w1", "belfry-attempt": "2", "belfry-fence": "18446744073709551615",
		"belfry-due": "2026-11-21T10:00:00.250Z",
	} {
		r.Header.Set(name, value)
	}
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, r)
	assert.Equal(t, w.Code, http.StatusTeapot, "answered")
	if got.TaskID != "order-1" || got.WebhookID != "w1" || got.Attempt != 2 || got.Fence != 1<<64-1 ||
		string(got.Body) != `{"n": 1}` {
		t.Errorf("%+v", got)
	}
	got.At = time.Date(2026, 11, 21, 10, 0, 0, 249e6, time.UTC)
	assert.Equal(t, got.Lateness(), -time.Millisecond, "lateness")
	got.Clock = got.Due.Add(3 * time.Millisecond) // of a sender whose clock is set ahead, or back
	if late := got.Lateness(); late != 3*time.Millisecond {
		t.Errorf("lateness %v by the sender's clock", late)
	}
}

func TestStrangeRequests(t *testing.T) {
	calls := 0
	handler := Handler(func(a Arrival) int {
		calls++
		if a.Lateness() != 0 || a.Attempt != 0 {
			t.Errorf("%+v", a)
		}
		return http.StatusOK
	})
	tests := []struct {
		name, method, body string
		want               int
	}{
		{"no webhook", "GET", "", http.StatusMethodNotAllowed},
		{"endless", "POST", strings.Repeat("x", maxBody+1), http.StatusBadRequest},
		{"bare", "POST", "x", http.StatusOK},
	}
	for _, tt := range tests {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest(tt.method, "/", strings.NewReader(tt.body)))
		assert.Equal(t, w.Code, tt.want, "%s: answered", tt.name)
	}
	assert.Equal(t, calls, 1, "arrivals")
}

// post returns the answer to a request, or nil if there is none. The caller of a request that hangs leaves.
func post(t *testing.T, handle func(Arrival) int, contentType, body string) *http.Response {
	t.Helper()
	ctx, leave := context.WithCancel(t.Context())
	t.Cleanup(leave)
	server := httptest.NewServer(Handler(func(a Arrival) int {
		status := handle(a)
		if status == Hang {
			leave()
		}
		return status
	}))
	t.Cleanup(server.Close)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, server.URL, strings.NewReader(body))
	assert.NoError(t, err)
	req.Header.Set("Content-Type", contentType)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil
	}
	t.Cleanup(func() { _ = resp.Body.Close() })
	return resp
}

const batchType = "application/cloudevents-batch+json; charset=utf-8"

func TestBatch(t *testing.T) {
	const body = `[{"id":"w0","subject":"a","time":"2026-11-21T10:00:00.250Z","belfryattempt":2,
		"belfryfence":"18446744073709551615","belfryscheduled":"2026-11-21T10:00:00Z","data":{"n": 1}},
		{"id":"w1","subject":"b","data_base64":"AP8="},{"id":"w2","subject":"c"}]`
	for name, test := range map[string]struct {
		statuses []int // by index
		want     int
		results  string
	}{
		"all taken": {[]int{200, 204, 200}, 200, ""},
		"one fails": {[]int{200, 503, 410}, 207,
			`{"results":[{"id":"w0","status":200},{"id":"w1","status":503},{"id":"w2","status":410}]}` + "\n"},
	} {
		t.Run(name, func(t *testing.T) {
			var got []Arrival
			resp := post(t, func(a Arrival) int { got = append(got, a); return test.statuses[a.Index] }, batchType, body)
			if resp == nil || resp.StatusCode != test.want {
				t.Fatalf("answered %+v", resp)
			}
			if reply, err := io.ReadAll(resp.Body); err != nil || string(reply) != test.results {
				t.Errorf("answered %q, %v", reply, err)
			}
			if len(got) != 3 || got[2].Index != 2 || got[2].Of != 3 || string(got[2].Request) != body {
				t.Fatalf("%+v", got)
			}
			if a := got[0]; a.TaskID != "a" || a.WebhookID != "w0" || a.Attempt != 2 || a.Fence != 1<<64-1 ||
				a.Due.UnixMilli()%1000 != 250 || a.Due.Sub(a.Scheduled).Milliseconds() != 250 || string(a.Body) != `{"n": 1}` {
				t.Errorf("%+v", a)
			}
			if b, c := string(got[1].Body), string(got[2].Body); b != "\x00\xff" || c != "" {
				t.Errorf("bodies %q and %q", b, c)
			}
		})
	}
	if resp := post(t, func(Arrival) int { return 200 }, batchType, "[]"); resp == nil || resp.StatusCode != 200 {
		t.Errorf("an empty batch: %+v", resp)
	}
	if resp := post(t, func(Arrival) int { return 200 }, batchType, "{}"); resp == nil || resp.StatusCode != 400 {
		t.Errorf("no batch: %+v", resp)
	}
}

func TestNoAnswer(t *testing.T) {
	for _, how := range []int{Hang, Reset} {
		if resp := post(t, func(Arrival) int { return how }, "", "x"); resp != nil {
			t.Errorf("%d: answered %d", how, resp.StatusCode)
		}
		handle := func(a Arrival) int { return []int{200, how}[a.Index] }
		if resp := post(t, handle, batchType, "[{},{}]"); resp != nil {
			t.Errorf("%d in a batch: answered %d", how, resp.StatusCode)
		}
	}
}
