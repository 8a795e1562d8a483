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

// Arrival is one attempt as its receiver sees it. A field that the request does not set is zero.
type Arrival struct {
	At        time.Time // when the request's header had arrived
	TaskID    string
	Source    string // namespace and queue, as the path of a call
	WebhookID string
	Attempt   int
	Fence     uint64
	Due       time.Time // in whole milliseconds
	Clock     time.Time // of a sender whose clock is set ahead: its time at the start of the request
	Scheduled time.Time // of an occurrence of a schedule: the instant of the rule
	Path      string    // of the request's URL
	Header    http.Header
	Body      []byte // payload of the task
	Request   []byte // body of the request, which is more than the payload in a batch
	Index, Of int    // index in the request, from 0, and number of attempts; a single one is 0 of 1
}

// Lateness returns the time between the due time and the arrival; negative if the attempt is early, 0 without a due
// time. If the sender has a clock of its own, that clock counts.
func (a Arrival) Lateness() time.Duration {
	switch {
	case a.Due.IsZero():
		return 0
	case !a.Clock.IsZero():
		return a.Clock.Sub(a.Due)
	}
	return a.At.Sub(a.Due)
}

// Values in place of a status, for requests that get no answer.
const (
	Hang  = -1 // keep the connection open until the sender gives up
	Reset = -2 // reset the connection
)

const (
	maxBody  = 1 << 20 // well above the largest payload of a task
	maxBatch = 64 << 20
)

// Handler passes each POSTed attempt to handle, on the request's own goroutine. It answers with the status that handle
// returns, or not at all. The attempts of a batch have a status each.
func Handler(handle func(Arrival) int) http.Handler {
	return RequestHandler(func(arrivals []Arrival) []int {
		statuses := make([]int, len(arrivals))
		for i, a := range arrivals {
			statuses[i] = handle(a)
		}
		return statuses
	})
}

// RequestHandler is like Handler, but handle gets all attempts of a request together and returns a status for each.
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
		for i := range arrivals {
			arrivals[i].Path = r.URL.Path
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
		At: at, TaskID: h.Get("Ce-Subject"), Source: h.Get("Ce-Source"), WebhookID: h.Get("Webhook-Id"),
		Header: h, Body: body, Request: body, Of: 1,
	}
	// A header that is missing or not a number leaves the field zero. This receiver accepts any request.
	a.Attempt, _ = strconv.Atoi(h.Get("Belfry-Attempt"))
	a.Fence, _ = strconv.ParseUint(h.Get("Belfry-Fence"), 10, 64)
	a.Due, _ = time.Parse(time.RFC3339Nano, h.Get("Belfry-Due"))
	a.Clock, _ = time.Parse(time.RFC3339Nano, h.Get("Belfry-Clock"))
	a.Scheduled, _ = time.Parse(time.RFC3339Nano, h.Get("Belfry-Scheduled"))
	return a
}

// answer sends the statuses to the sender. One Hang or Reset leaves the whole request without an answer.
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

// reset ends a request's connection as a killed process does.
func reset(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler) // closes the connection, the nearest alternative
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // without it the close is orderly
	}
	_ = conn.Close()
}
