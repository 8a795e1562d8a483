package delivery_test

import (
	"encoding/base64"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/belfryhq/belfry/client/webhook"
	"github.com/belfryhq/belfry/delivery"
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/internal/assert"
)

const (
	secretA = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	secretB = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"
)

// sender returns a Webhook that delivers as a node does, with the given clock.
func sender(t *testing.T, now func() time.Time) *delivery.Webhook {
	t.Helper()
	w, err := delivery.New(delivery.Config{
		AllowCIDRs: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, Version: "1.2.3", Now: now,
	})
	assert.NoError(t, err)
	t.Cleanup(w.Close)
	return w
}

func attempt(url, id string, fence uint64, payload []byte, secrets ...string) task.Attempt {
	a := task.Attempt{Timeout: 10 * time.Second, Task: &fsmpb.Task{
		Id: id, Spec: &fsmpb.Spec{Payload: payload, Queue: "orders", Target: &fsmpb.Target{Url: url}},
		FireAtMs: time.Date(2026, 11, 21, 10, 0, 0, 7e6, time.UTC).UnixMilli(), Attempts: 2, Fence: fence, WebhookId: "msg_" + id,
	}}
	for _, s := range secrets {
		key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(s, "whsec_"))
		if err != nil {
			panic(err)
		}
		a.Secrets = append(a.Secrets, key)
	}
	return a
}

// receiver starts a server that verifies with one secret. The channel gets the accepted deliveries.
func receiver(t *testing.T) (url string, got <-chan *webhook.Delivery) {
	t.Helper()
	v, err := webhook.New(webhook.Config{Secrets: []string{secretA}})
	assert.NoError(t, err)
	deliveries := make(chan *webhook.Delivery, 8)
	s := httptest.NewServer(v.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		deliveries <- webhook.FromContext(r.Context())
	})))
	t.Cleanup(s.Close)
	return s.URL, deliveries
}

// TestNodesDeliveriesAreVerified covers a node's deliveries with every kind of payload and during a change of the
// secret.
func TestNodesDeliveriesAreVerified(t *testing.T) {
	w := sender(t, nil)
	url, got := receiver(t)
	for i, payload := range [][]byte{[]byte(`{"order": 1042}`), nil, {0, 0xff, '\r', '\n'}, []byte(strings.Repeat("x", 256<<10))} {
		for _, secrets := range [][]string{{secretA}, {secretB, secretA}} {
			a := attempt(url, "order:1042~close", uint64(100+i), payload, secrets...)
			if out := w.Deliver(t.Context(), a); !out.Delivered {
				t.Fatalf("payload %d: %+v", i, out)
			}
			d := <-got
			e := d.Events[0]
			if d.ID != a.Task.WebhookId || string(d.Body) != string(payload) || e.Task != a.Task.Id || e.Fence != a.Task.Fence ||
				e.Attempt != 2 || e.Source != "/v1/queues/orders" || e.Due.UnixMilli() != a.Task.FireAtMs {
				t.Errorf("payload %d: %+v", i, d)
			}
		}
	}
}

// TestNodesDeliveriesAreRefused checks that a delivery of an impostor, a replay or a superseded node is refused, and
// that the answer gives the reason.
func TestNodesDeliveriesAreRefused(t *testing.T) {
	url, got := receiver(t)
	old := sender(t, func() time.Time { return time.Now().Add(-6 * time.Minute) })
	w := sender(t, nil)
	for name, c := range map[string]struct {
		by     *delivery.Webhook
		a      task.Attempt
		reason string
	}{
		"unsigned": {w, attempt(url, "a", 7, nil), "no signature"}, "another secret": {w, attempt(url, "a", 7, nil, secretB), "no signature"},
		"of six minutes ago": {old, attempt(url, "a", 7, nil, secretA), "not sent just now"},
	} {
		if out := c.by.Deliver(t.Context(), c.a); out.Delivered || !strings.Contains(out.Error, c.reason) {
			t.Errorf("%s: %+v", name, out)
		}
	}
	if out := w.Deliver(t.Context(), attempt(url, "a", 7, nil, secretA)); !out.Delivered {
		t.Fatalf("%+v", out)
	}
	<-got
	if out := w.Deliver(t.Context(), attempt(url, "a", 6, nil, secretA)); out.Delivered || !strings.Contains(out.Error, "superseded") {
		t.Errorf("a lower fence: %+v", out)
	}
	if len(got) != 0 {
		t.Errorf("%d were handed on", len(got))
	}
}

// TestNodesBatchesAreVerified checks that a batch is verified as a whole, and each event by its fence.
func TestNodesBatchesAreVerified(t *testing.T) {
	w := sender(t, nil)
	url, got := receiver(t)
	for round, stale := range []string{"", "b"} {
		batch := []task.Attempt{attempt(url, "a", uint64(10+round), []byte("1"), secretA), attempt(url, "b", uint64(10-round), nil, secretA)}
		for i, out := range w.DeliverBatch(t.Context(), batch) {
			if !out.Delivered {
				t.Fatalf("round %d, event %d: %+v", round, i, out)
			}
		}
		d := <-got
		if !d.Batch || len(d.Events) != 2 {
			t.Fatalf("%+v", d)
		}
		for i, e := range d.Events {
			task := batch[i].Task
			if e.Task != task.Id || e.ID != task.WebhookId || e.Fence != task.Fence || e.Attempt != 2 || e.Stale != (e.Task == stale) ||
				e.Due.UnixMilli() != task.FireAtMs {
				t.Errorf("round %d: %+v", round, e)
			}
		}
	}
	v, err := webhook.New(webhook.Config{Secrets: []string{secretB}})
	assert.NoError(t, err)
	if _, err := v.Verify(t.Context(), http.Header{}, nil); !errors.Is(err, webhook.ErrMalformed) {
		t.Error(err)
	}
}
