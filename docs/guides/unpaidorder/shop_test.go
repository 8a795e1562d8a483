package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/belfryhq/belfry/belfrytest"
	"github.com/belfryhq/belfry/client"
)

// world is a shop beside a Belfry with a clock that the test sets ahead.
type world struct {
	*belfrytest.Server
	t    *testing.T
	shop *httptest.Server
	down atomic.Bool // the shop answers 503 to webhooks
}

func newWorld(t *testing.T) *world {
	t.Parallel()
	w := &world{Server: belfrytest.New(t), t: t}
	secret := newSecret()
	shop, err := New(w.Client(), secret)
	if err != nil {
		t.Fatal(err)
	}
	w.shop = httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if w.down.Load() && r.URL.Path == "/hooks/close" {
			rw.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		shop.ServeHTTP(rw, r)
	}))
	t.Cleanup(w.shop.Close)
	if err := SetQueue(t.Context(), w.Client(), w.shop.URL+"/hooks/close", secret); err != nil {
		t.Fatal(err)
	}
	return w
}

// call makes a call of a customer, and returns the answer's status, state and cancel.
func (w *world) call(method, path string) (status int, state State, cancel client.Outcome) {
	w.t.Helper()
	r, err := http.NewRequestWithContext(w.t.Context(), method, w.shop.URL+path, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		w.t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	var a struct {
		State  State
		Cancel client.Outcome
	}
	if response.StatusCode == http.StatusOK {
		if err := json.NewDecoder(response.Body).Decode(&a); err != nil {
			w.t.Fatal(err)
		}
	}
	return response.StatusCode, a.State, a.Cancel
}

// want checks the state of an order.
func (w *world) want(id string, state State) {
	w.t.Helper()
	if _, got, _ := w.call("GET", "/orders/"+id); got != state {
		w.t.Errorf("order %s is %q, want %q", id, got, state)
	}
}

func TestUnpaidOrderIsClosed(t *testing.T) {
	w := newWorld(t)
	w.call("PUT", "/orders/1042")
	w.Advance(29 * time.Minute)
	w.call("PUT", "/orders/1042") // a repeat does not begin the 30 minutes anew
	w.want("1042", open)
	w.Advance(2 * time.Minute)
	w.want("1042", closed)
	if status, _, _ := w.call("PUT", "/orders/1042/paid"); status != http.StatusConflict {
		t.Errorf("a payment after the close is answered %d", status)
	}
}

func TestPaidOrderStaysOpen(t *testing.T) {
	w := newWorld(t)
	w.call("PUT", "/orders/1042")
	w.Advance(29 * time.Minute)
	for range 2 { // the repeat of the payment gets the same answer
		if _, state, cancel := w.call("PUT", "/orders/1042/paid"); state != paid || cancel != client.OutcomeCancelled {
			t.Errorf("the payment is answered %s, %s", state, cancel)
		}
	}
	if begun := w.Advance(time.Hour); begun != 0 {
		t.Errorf("%d attempts began after the cancel", begun)
	}
	w.want("1042", paid)
}

// TestPaymentBetweenTwoAttempts pays while the shop's webhook is down, after an attempt that failed.
func TestPaymentBetweenTwoAttempts(t *testing.T) {
	w := newWorld(t)
	w.down.Store(true)
	w.call("PUT", "/orders/1042")
	w.Advance(31 * time.Minute)
	if _, state, cancel := w.call("PUT", "/orders/1042/paid"); state != paid || cancel != client.OutcomeStopped {
		t.Errorf("the payment is answered %s, %s", state, cancel)
	}
	w.down.Store(false)
	w.Advance(time.Hour)
	w.want("1042", paid)
}

// TestRepeatedCloseChangesNothing delivers two tasks once more: that of a paid order, and that of a closed one.
func TestRepeatedCloseChangesNothing(t *testing.T) {
	w := newWorld(t)
	w.call("PUT", "/orders/1042")
	w.call("PUT", "/orders/1043")
	w.call("PUT", "/orders/1042/paid")
	w.Advance(31 * time.Minute)
	for _, id := range []string{"1042", "1043"} {
		_, err := w.Client().Schedule(t.Context(), client.Task{
			ID: taskID(id), Queue: queue, Payload: json.RawMessage(`{"order": "` + id + `"}`),
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if begun := w.Advance(time.Minute); begun != 2 {
		t.Errorf("%d attempts began, want one for each task", begun)
	}
	w.want("1042", paid)
	w.want("1043", closed)
}

func TestUnsignedCloseIsRefused(t *testing.T) {
	w := newWorld(t)
	w.call("PUT", "/orders/1042")
	response, err := http.Post(w.shop.URL+"/hooks/close", "application/json", strings.NewReader(`{"order": "1042"}`))
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	if response.StatusCode < 400 {
		t.Errorf("answered %d", response.StatusCode)
	}
	w.want("1042", open)
}
