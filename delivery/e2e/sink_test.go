package e2e_test

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/belfryhq/belfry/deploy/receiver"
)

// reply is a sink's answer.
type reply struct {
	status     int // 0: 200
	retryAfter string
	hold       time.Duration // before the answer
}

// sink is a receiver that records arrivals and how many run at once, and answers as the test sets.
type sink struct {
	url  string
	room chan struct{} // bounds the arrivals in progress; nil: no bound

	mu       sync.Mutex // guards the fields below
	answer   func(receiver.Arrival) reply
	slim     bool // keep neither header nor body, for many arrivals
	arrivals []receiver.Arrival
	taken    map[string]bool // tasks with an arrival that was answered with success
	running  int
	peak     int // the largest number that ever ran at once
}

// newSink starts a receiver that answers 200 at once until the test sets another reply.
func (s *stage) newSink(t testing.TB) *sink {
	t.Helper()
	receives := &sink{answer: func(receiver.Arrival) reply { return reply{} }, taken: map[string]bool{}}
	l := s.listen(t, s.freeAddr(t))
	server := &http.Server{Handler: receives, ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(l) }() // its error is that of Close
	t.Cleanup(func() { _ = server.Close() })
	receives.url = "http://" + l.Addr().String() + "/hook"
	return receives
}

// ServeHTTP takes an arrival.
func (s *sink) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	receiver.Handler(func(a receiver.Arrival) int {
		re := s.begin(a)
		s.work(r.Context(), re.hold)
		s.end(a.TaskID, re.status)
		if re.retryAfter != "" {
			w.Header().Set("Retry-After", re.retryAfter)
		}
		return re.status
	}).ServeHTTP(w, r)
}

// work waits for a place in room, if there is one, and holds it for d. It ends with the connection.
func (s *sink) work(ctx context.Context, d time.Duration) {
	if s.room != nil {
		select {
		case s.room <- struct{}{}:
			defer func() { <-s.room }()
		case <-ctx.Done():
			return
		}
	}
	if d == 0 {
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

func (s *sink) begin(a receiver.Arrival) reply {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.slim {
		a.Header, a.Body = nil, nil
	}
	s.arrivals = append(s.arrivals, a)
	s.running++
	s.peak = max(s.peak, s.running)
	re := s.answer(a)
	if re.status == 0 {
		re.status = http.StatusOK
	}
	return re
}

// end runs before the answer is written, so that the sender can never begin the next request before this one has ended.
func (s *sink) end(id string, status int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running--
	if status < 300 {
		s.taken[id] = true
	}
}

// reply sets the function that answers from now on.
func (s *sink) reply(answer func(receiver.Arrival) reply) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer = answer
}

// came returns the arrivals so far.
func (s *sink) came() []receiver.Arrival {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.arrivals)
}

// counts returns the number of tasks with a successful arrival, and the largest number of arrivals that ever ran at
// once.
func (s *sink) counts() (taken, peak int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.taken), s.peak
}
