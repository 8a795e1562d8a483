package receiver

import (
	"io"
	"net/http"
	"strconv"
	"time"
)

// Arrival is one attempt, as its receiver sees it. What its headers do not say is zero.
type Arrival struct {
	At        time.Time // when its header had come
	TaskID    string
	WebhookID string
	Attempt   int
	Fence     uint64
	Due       time.Time // in whole milliseconds
	Header    http.Header
	Body      []byte
}

// Lateness is how long after its due time the attempt came; negative: it came early. Without a due time it is 0.
func (a Arrival) Lateness() time.Duration {
	if a.Due.IsZero() {
		return 0
	}
	return a.At.Sub(a.Due)
}

const maxBody = 1 << 20 // well over what a task may hold

// Handler hands each POST to handle, on a goroutine of its own, and answers with the status that handle returns.
func Handler(handle func(Arrival) int) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		at := time.Now()
		if r.Method != http.MethodPost {
			w.Header().Set("Allow", http.MethodPost)
			http.Error(w, "webhooks are POSTed", http.StatusMethodNotAllowed)
			return
		}
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		w.WriteHeader(handle(read(at, r.Header, body)))
	})
}

func read(at time.Time, h http.Header, body []byte) Arrival {
	a := Arrival{
		At: at, TaskID: h.Get("Ce-Subject"), WebhookID: h.Get("Webhook-Id"), Header: h, Body: body,
	}
	// A header that is absent or no number leaves its zero: this receiver takes what comes.
	a.Attempt, _ = strconv.Atoi(h.Get("Belfry-Attempt"))
	a.Fence, _ = strconv.ParseUint(h.Get("Belfry-Fence"), 10, 64)
	a.Due, _ = time.Parse(time.RFC3339Nano, h.Get("Belfry-Due"))
	return a
}
