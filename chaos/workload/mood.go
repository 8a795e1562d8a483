package workload

import (
	"bytes"
	"net/http"
	"strconv"
	"time"
)

// Mood is how a receiver treats requests, beside the orders in payloads. The zero value is friendly.
type Mood struct {
	Path       string        // of the requests, below the receiver's URL; empty: all are treated so
	Slow       time.Duration // wait before each answer
	Answer     int           // answer in place of any other: a status, or receiver.Reset; 0: none
	RetryAfter time.Duration // Retry-After of each answer, in whole seconds; 0: none
	Reply      int           // bytes in each answer's body
}

// Behave puts the receiver into a mood, for requests from now on.
func (r *Receiver) Behave(m Mood) { r.mood.Store(&m) }

// moodFor returns how the receiver treats requests of a path below its URL.
func (r *Receiver) moodFor(path string) Mood {
	if m := r.mood.Load(); m.Path == "" || m.Path == path {
		return *m
	}
	return Mood{}
}

// moody adds the Retry-After and the body of the mood to the answers of next.
func (r *Receiver) moody(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		m := r.moodFor(below(req.URL.Path))
		if m.RetryAfter > 0 {
			w.Header().Set("Retry-After", strconv.Itoa(int(m.RetryAfter/time.Second)))
		}
		next.ServeHTTP(w, req)
		for left := m.Reply; left > 0; left -= len(filler) {
			if _, err := w.Write(filler); err != nil {
				return // the sender has read enough, or the connection was taken away
			}
		}
	})
}

var filler = bytes.Repeat([]byte("more than anybody asked for\n"), 1<<10)
