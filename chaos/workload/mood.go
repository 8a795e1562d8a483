package workload

import (
	"bytes"
	"net/http"
	"strconv"
	"time"
)

// Mood is how a receiver treats everything that comes, beside what payloads ask of it. The zero value is friendly.
type Mood struct {
	Slow       time.Duration // before each answer
	Answer     int           // in place of any other: a status, or receiver.Reset; 0: none
	RetryAfter time.Duration // what an answer asks for, in whole seconds; 0: nothing
	Reply      int           // bytes in each answer's body
}

// Behave puts the receiver into a mood, for what comes from now on.
func (r *Receiver) Behave(m Mood) { r.mood.Store(&m) }

// moody adds to answers what a mood has beside the status.
func (r *Receiver) moody(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		m := r.mood.Load()
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
