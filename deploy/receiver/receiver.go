package receiver

import (
	"io"
	"mime"
	"net"
	"net/http"
	"slices"
	"strconv"
	"time"
)

// Arrival is one attempt, as its receiver sees it. What the request does not say is zero.
type Arrival struct {
	At        time.Time // when its header had come
	TaskID    string
	WebhookID string
	Attempt   int
	Fence     uint64
	Due       time.Time // in whole milliseconds
	Header    http.Header
	Body      []byte // the task's payload
	Request   []byte // the body of the request, which is more than the payload in a batch
	Index, Of int    // which of how many attempts of the request this is, from 0; of 1 if it came alone
}

// Lateness is how long after its due time the attempt came; negative: it came early. Without a due time it is 0.
func (a Arrival) Lateness() time.Duration {
	if a.Due.IsZero() {
		return 0
	}
	return a.At.Sub(a.Due)
}

// In place of a status, ways not to answer a request.
const (
	Hang  = -1 // until the sender gives up
	Reset = -2 // the connection
)

const (
	maxBody  = 1 << 20 // well over what a task may hold
	maxBatch = 64 << 20
)

// Handler hands each attempt that is POSTed to handle, on the request's own goroutine, and answers with the status that
// handle returns, or not at all; of a batch, each with its own.
func Handler(handle func(Arrival) int) http.Handler {
	return RequestHandler(func(arrivals []Arrival) []int {
		statuses := make([]int, len(arrivals))
		for i, a := range arrivals {
			statuses[i] = handle(a)
		}
		return statuses
	})
}

// RequestHandler is Handler for who wants all attempts of a request together. It gets a status for each.
func RequestHandler(handle func([]Arrival) []int) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		at := time.Now()
		if r.Method != http.MethodPost {
			w.Header().Set("Allow", http.MethodPost)
			http.Error(w, "webhooks are POSTed", http.StatusMethodNotAllowed)
			return
		}
		arrivals, err := read(w, r, at)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		answer(w, r, arrivals, handle(arrivals))
	})
}

func read(w http.ResponseWriter, r *http.Request, at time.Time) ([]Arrival, error) {
	media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	batch := err == nil && media == "application/cloudevents-batch+json"
	limit := int64(maxBody)
	if batch {
		limit = maxBatch
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, limit))
	if err != nil {
		return nil, err
	}
	if batch {
		return readBatch(at, r.Header, body)
	}
	return []Arrival{readOne(at, r.Header, body)}, nil
}

func readOne(at time.Time, h http.Header, body []byte) Arrival {
	a := Arrival{
		At: at, TaskID: h.Get("Ce-Subject"), WebhookID: h.Get("Webhook-Id"), Header: h, Body: body, Request: body, Of: 1,
	}
	// A header that is absent or no number leaves its zero: this receiver takes what comes.
	a.Attempt, _ = strconv.Atoi(h.Get("Belfry-Attempt"))
	a.Fence, _ = strconv.ParseUint(h.Get("Belfry-Fence"), 10, 64)
	a.Due, _ = time.Parse(time.RFC3339Nano, h.Get("Belfry-Due"))
	return a
}

// answer tells the sender how it went. If one attempt is not to be answered, none of its request is.
func answer(w http.ResponseWriter, r *http.Request, arrivals []Arrival, statuses []int) {
	switch {
	case slices.Contains(statuses, Hang):
		<-r.Context().Done()
	case slices.Contains(statuses, Reset):
		reset(w)
	case len(statuses) == 0:
		w.WriteHeader(http.StatusOK)
	case len(statuses) == 1 || !slices.ContainsFunc(statuses, isFailure):
		w.WriteHeader(statuses[0])
	default:
		answerEach(w, arrivals, statuses)
	}
}

func isFailure(status int) bool { return status < 200 || status > 299 }

// reset ends a request's connection as a process does that is killed.
func reset(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler) // which closes it, the next best thing
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // without it the connection is merely closed
	}
	_ = conn.Close()
}
