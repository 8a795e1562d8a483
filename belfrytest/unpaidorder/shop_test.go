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
	"github.com/belfryhq/belfry/internal/assert"
)

// world is a shop beside a Belfry with a clock that the tests set ahead.
type world struct {
	*belfrytest.Server
	shop *httptest.Server
	down atomic.Bool // the shop answers 503 to webhooks
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{Server: belfrytest.New(t)}
	secret := newSecret()
	shop, err := New(w.Client(), secret)
	assert.NoError(t, err)
	w.shop = httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if w.down.Load() && r.URL.Path == "/hooks/close" {
			rw.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		shop.ServeHTTP(rw, r)
	}))
	t.Cleanup(w.shop.Close)
	assert.NoError(t, SetQueue(t.Context(), w.Client(), w.shop.URL+"/hooks/close", secret))
	return w
}

// call makes a call of a customer, and returns the answer's status, state and cancel.
func (w *world) call(t *testing.T, method, path string) (status int, state State, cancel client.Outcome) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, w.shop.URL+path, nil)
	assert.NoError(t, err)
	response, err := http.DefaultClient.Do(r)
	assert.NoError(t, err)
	defer func() { _ = response.Body.Close() }()
	var a struct {
		State  State
		Cancel client.Outcome
	}
	if response.StatusCode == http.StatusOK {
		assert.NoError(t, json.NewDecoder(response.Body).Decode(&a))
	}
	return response.StatusCode, a.State, a.Cancel
}

// want checks the state of an order.
func (w *world) want(t *testing.T, id string, state State) {
	t.Helper()
	_, got, _ := w.call(t, "GET", "/orders/"+id)
	assert.Equal(t, got, state, "order %s", id)
}

// TestShop plays the stories of orders, one after the other. Each has orders of its own, and leaves no task behind.
func TestShop(t *testing.T) {
	w := newWorld(t)
	for _, story := range []struct {
		name string
		play func(t *testing.T, w *world)
	}{
		{"an unpaid order is closed", unpaidOrderIsClosed},
		{"a paid order stays open", paidOrderStaysOpen},
		{"a payment between two attempts", paymentBetweenTwoAttempts},
		{"a repeated close changes nothing", repeatedCloseChangesNothing},
		{"an unsigned close is refused", unsignedCloseIsRefused},
	} {
		t.Run(story.name, func(t *testing.T) { story.play(t, w) })
	}
}

func unpaidOrderIsClosed(t *testing.T, w *world) {
	w.call(t, "PUT", "/orders/1042")
	w.Advance(29 * time.Minute)
	w.call(t, "PUT", "/orders/1042") // a repeat does not begin the 30 minutes anew
	w.want(t, "1042", open)
	w.Advance(2 * time.Minute)
	w.want(t, "1042", closed)
	status, _, _ := w.call(t, "PUT", "/orders/1042/paid")
	assert.Equal(t, status, http.StatusConflict, "a payment after the close is answered")
}

func paidOrderStaysOpen(t *testing.T, w *world) {
	w.call(t, "PUT", "/orders/1043")
	w.Advance(29 * time.Minute)
	for range 2 { // the repeat of the payment gets the same answer
		if _, state, cancel := w.call(t, "PUT", "/orders/1043/paid"); state != paid || cancel != client.OutcomeCancelled {
			t.Errorf("the payment is answered %s, %s", state, cancel)
		}
	}
	assert.Equal(t, w.Advance(time.Hour), 0, "attempts began after the cancel")
	w.want(t, "1043", paid)
}

// paymentBetweenTwoAttempts pays while the shop's webhook is down, after an attempt that failed.
func paymentBetweenTwoAttempts(t *testing.T, w *world) {
	w.down.Store(true)
	w.call(t, "PUT", "/orders/1044")
	w.Advance(31 * time.Minute)
	if _, state, cancel := w.call(t, "PUT", "/orders/1044/paid"); state != paid || cancel != client.OutcomeStopped {
		t.Errorf("the payment is answered %s, %s", state, cancel)
	}
	w.down.Store(false)
	w.Advance(time.Hour)
	w.want(t, "1044", paid)
}

// repeatedCloseChangesNothing delivers two tasks once more: that of a paid order, and that of a closed one.
func repeatedCloseChangesNothing(t *testing.T, w *world) {
	w.call(t, "PUT", "/orders/1045")
	w.call(t, "PUT", "/orders/1046")
	w.call(t, "PUT", "/orders/1045/paid")
	w.Advance(31 * time.Minute)
	for _, id := range []string{"1045", "1046"} {
		_, err := w.Client().Schedule(t.Context(), client.Task{
			ID: taskID(id), Queue: queue, Payload: json.RawMessage(`{"order": "` + id + `"}`),
		})
		assert.NoError(t, err)
	}
	if begun := w.Advance(time.Minute); begun != 2 {
		t.Errorf("%d attempts began, want one for each task", begun)
	}
	w.want(t, "1045", paid)
	w.want(t, "1046", closed)
}

func unsignedCloseIsRefused(t *testing.T, w *world) {
	w.call(t, "PUT", "/orders/1047")
	response, err := http.Post(w.shop.URL+"/hooks/close", "application/json", strings.NewReader(`{"order": "1047"}`))
	assert.NoError(t, err)
	_ = response.Body.Close()
	if response.StatusCode < 400 {
		t.Errorf("answered %d", response.StatusCode)
	}
	w.want(t, "1047", open)
	w.Advance(time.Hour)
}
