package receivers

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/belfryhq/belfry/delivery"
	"github.com/belfryhq/belfry/delivery/broker"
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/internal/assert"
)

func attemptTo(url string) task.Attempt {
	return task.Attempt{Task: &fsmpb.Task{
		Id: "a", WebhookId: "w", Spec: &fsmpb.Spec{Target: &fsmpb.Target{Url: url}},
	}}
}

// The URL of a target decides between webhooks and brokers.
func TestReceivers(t *testing.T) {
	hook := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(hook.Close)
	file := filepath.Join(t.TempDir(), "brokers.yaml")
	assert.NoError(t, os.WriteFile(file, []byte("redis://127.0.0.1:1:\n"), 0o600))
	known, err := broker.LoadKnown(file)
	assert.NoError(t, err)
	r, err := New(
		delivery.Config{AllowCIDRs: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}},
		broker.Config{Known: known, AllowCIDRs: []netip.Prefix{netip.MustParsePrefix("127.0.0.2/32")}},
	)
	assert.NoError(t, err)
	t.Cleanup(func() { _ = r.Close() })
	for url, want := range map[string]string{
		hook.URL:                        "",
		"redis://127.0.0.1:1/?stream=s": "connection refused",
		"nats://127.0.0.1:1/s":          "with --brokers",
		"nats://127.0.0.2:1/s":          "connection refused",
		"amqp://127.0.0.1:1/":           "neither a queue nor an exchange",
		"":                              "no webhook target",
	} {
		single := r.Deliver(t.Context(), attemptTo(url))
		batch := r.DeliverBatch(t.Context(), []task.Attempt{attemptTo(url)})
		for _, out := range append(batch, single) {
			if out.Delivered != (want == "") || !strings.Contains(out.Error, want) {
				t.Errorf("%q: %+v", url, out)
			}
		}
	}
	for url, refused := range map[string]bool{
		hook.URL: false, "http://10.0.0.1/": true, "redis://127.0.0.1:1/?stream=s": false, "nats://127.0.0.1:1/s": true,
		"nats://127.0.0.2:1/s": false, "nats://127.0.0.2:1,127.0.0.1:1/s": true, "nats://localhost:1/s": true,
		"kafkas://127.0.0.2/topic": false,
	} {
		err := r.CheckURL(url)
		assert.Equal(t, err != nil, refused, "%s: %v", url, err)
	}
}
