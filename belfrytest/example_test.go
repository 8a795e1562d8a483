package belfrytest_test

import (
	"encoding/json"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/belfryhq/belfry/belfrytest"
	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/internal/assert"
)

// shop is the program under test: it closes orders that are not paid within 30 minutes.
type shop struct {
	belfry *client.Client
	url    string // of closeUnpaid

	mu     sync.Mutex
	orders map[string]string // state by id
}

func (s *shop) order(t *testing.T, id string) {
	t.Helper()
	s.set(id, "open")
	_, err := s.belfry.Schedule(t.Context(), client.Task{
		ID: id + "-close", Delay: 30 * time.Minute, Payload: json.RawMessage(`"` + id + `"`),
		Target: &client.Target{URL: s.url},
	})
	assert.NoError(t, err)
}

func (s *shop) pay(t *testing.T, id string) {
	t.Helper()
	s.set(id, "paid")
	_, err := s.belfry.Cancel(t.Context(), id+"-close")
	assert.NoError(t, err)
}

// closeUnpaid is the handler of the webhook.
func (s *shop) closeUnpaid(w http.ResponseWriter, r *http.Request) {
	var id string
	if err := json.NewDecoder(r.Body).Decode(&id); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	s.set(id, "closed")
}

func (s *shop) set(id, state string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.orders[id] = state
}

func (s *shop) state(id string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.orders[id]
}

// Close the unpaid order after 30 minutes unless it is paid.
func TestCloseTheUnpaidOrder(t *testing.T) {
	belfry := belfrytest.New(t)
	receiver := belfry.Receiver()
	s := &shop{belfry: belfry.Client(), url: receiver.URL, orders: map[string]string{}}
	receiver.Respond(s.closeUnpaid)

	s.order(t, "unpaid")
	s.order(t, "paid")
	belfry.Advance(29 * time.Minute)
	s.pay(t, "paid")

	belfry.Advance(time.Hour) // the attempt is half an hour before its end, and has ended, too
	if unpaid, paid := s.state("unpaid"), s.state("paid"); unpaid != "closed" || paid != "paid" {
		t.Errorf("the unpaid order is %s, the paid one is %s", unpaid, paid)
	}
	if got := receiver.All(); len(got) != 1 || got[0].TaskID != "unpaid-close" {
		t.Errorf("%+v", got)
	}
}

// A receiver that is down for an hour gets the task when it is back: retries come due as the clock goes on.
func TestReceiverThatIsDown(t *testing.T) {
	belfry := belfrytest.New(t)
	receiver := belfry.Receiver()
	back := belfry.Now().Add(time.Hour)
	receiver.Respond(func(w http.ResponseWriter, _ *http.Request) {
		if belfry.Now().Before(back) {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	_, err := belfry.Client().Schedule(t.Context(), client.Task{
		ID: "report", Target: &client.Target{URL: receiver.URL}, Retry: &client.Retry{MaxAttempts: 100},
	})
	assert.NoError(t, err)
	belfry.Advance(2 * time.Hour)
	all := receiver.All()
	if last := all[len(all)-1]; last.Attempt < 5 || last.At.Before(back) {
		t.Errorf("the last of %d attempts: %+v", len(all), last)
	}
}
