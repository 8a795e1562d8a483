package belfrytest

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"testing"
	"time"
)

// nextTime bounds the wait of Next.
const nextTime = 10 * time.Second

// Receiver records the webhooks that it gets. It answers 200 unless Respond sets another answer.
type Receiver struct {
	URL string // for client.Target

	server *Server

	mu      sync.Mutex
	got     []Delivery
	read    int           // number of deliveries that Next has returned
	changed chan struct{} // closed and replaced at each delivery
	respond http.HandlerFunc
}

// Delivery is one attempt as its receiver saw it.
type Delivery struct {
	TaskID    string
	WebhookID string // the same for all attempts of an occurrence
	Attempt   int
	Due       time.Time // when the task was due
	At        time.Time // when the request arrived, by the Server's clock
	Header    http.Header
	Body      []byte
}

// Receiver starts a receiver on this machine, and stops it at the end of the test.
func (s *Server) Receiver() *Receiver {
	s.t.Helper()
	r := &Receiver{server: s, changed: make(chan struct{}), respond: func(http.ResponseWriter, *http.Request) {}}
	web := &httptest.Server{Listener: s.listen(), Config: &http.Server{Handler: r}}
	web.Start()
	r.URL = web.URL
	s.t.Cleanup(func() {
		web.CloseClientConnections() // ends the contexts of handlers that hang
		web.Close()
	})
	return r
}

func (s *Server) listen() net.Listener {
	s.t.Helper()
	const addr = "127.0.0.1:0"
	var l net.Listener
	var err error
	if s.network == nil {
		l, err = net.Listen("tcp", addr)
	} else {
		l, _, err = s.network.Listen(addr)
	}
	if err != nil {
		s.t.Fatalf("belfrytest: %v", err)
	}
	return l
}

// Respond sets the answer to later deliveries. The handler gets the request with its body after the delivery was
// recorded. It may call the Server's client: the attempt ends when the handler returns, and the tasks that it schedules
// come due in order. It must not call Advance, which waits for the attempt.
func (r *Receiver) Respond(h http.HandlerFunc) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.respond = h
}

// Next returns the first delivery that no call of Next has returned yet, in the order of arrival. It waits for one up
// to 10 seconds of real time, and then fails the test.
func (r *Receiver) Next(t testing.TB) Delivery {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), nextTime)
	defer cancel()
	for {
		r.mu.Lock()
		if r.read < len(r.got) {
			d := r.got[r.read]
			r.read++
			r.mu.Unlock()
			return d
		}
		changed := r.changed
		r.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			t.Fatalf("belfrytest: no further delivery came to %s within %v; %d came before", r.URL, nextTime, len(r.All()))
		}
	}
}

// All returns all deliveries so far, in the order of arrival.
func (r *Receiver) All() []Delivery {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]Delivery(nil), r.got...)
}

// ServeHTTP records a delivery and answers it.
func (r *Receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	respond := r.record(deliveryOf(req, body, r.server.Now()))
	req.Body = io.NopCloser(bytes.NewReader(body))
	respond(w, req)
}

func (r *Receiver) record(d Delivery) http.HandlerFunc {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.got = append(r.got, d)
	close(r.changed)
	r.changed = make(chan struct{})
	return r.respond
}

// deliveryOf reads the headers of a webhook. A header that is absent or that is no number leaves its field zero, since
// any program may send requests to the receiver.
func deliveryOf(req *http.Request, body []byte, at time.Time) Delivery {
	d := Delivery{
		TaskID: req.Header.Get("Ce-Subject"), WebhookID: req.Header.Get("Webhook-Id"), At: at,
		Header: req.Header.Clone(), Body: body,
	}
	if n, err := strconv.Atoi(req.Header.Get("Belfry-Attempt")); err == nil {
		d.Attempt = n
	}
	if due, err := time.Parse(time.RFC3339, req.Header.Get("Belfry-Due")); err == nil {
		d.Due = due
	}
	return d
}
