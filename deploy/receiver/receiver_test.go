package receiver

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
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
	if w.Code != http.StatusTeapot {
		t.Errorf("answered %d", w.Code)
	}
	if got.TaskID != "order-1" || got.WebhookID != "w1" || got.Attempt != 2 || got.Fence != 1<<64-1 ||
		string(got.Body) != `{"n": 1}` {
		t.Errorf("%+v", got)
	}
	got.At = time.Date(2026, 11, 21, 10, 0, 0, 249e6, time.UTC)
	if late := got.Lateness(); late != -time.Millisecond {
		t.Errorf("lateness %v", late)
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
		if w.Code != tt.want {
			t.Errorf("%s: answered %d, want %d", tt.name, w.Code, tt.want)
		}
	}
	if calls != 1 {
		t.Errorf("%d arrivals", calls)
	}
}
