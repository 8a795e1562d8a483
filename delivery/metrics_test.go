package delivery

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/internal/assert"
)

func TestMetrics(t *testing.T) {
	reg := prometheus.NewRegistry()
	w := newWebhook(t, func(c *Config) { c.Registerer = reg })
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	ok := serve(t, answer(200, nil, ""))
	for range 3 {
		w.Deliver(t.Context(), attemptOf(ok))
	}
	for range 2 {
		w.Deliver(t.Context(), attemptOf(serve(t, answer(500, nil, ""))))
	}
	w.Deliver(t.Context(), attemptOf(serve(t, answer(410, nil, ""))))
	w.Deliver(t.Context(), attemptOf("http://10.0.0.1/"))
	w.Deliver(ended, attemptOf(ok))
	const want = `
# HELP belfry_delivery_attempts_total Webhook attempts that ended, by outcome.
# TYPE belfry_delivery_attempts_total counter
belfry_delivery_attempts_total{result="aborted"} 1
belfry_delivery_attempts_total{result="delivered"} 3
belfry_delivery_attempts_total{result="failed"} 2
belfry_delivery_attempts_total{result="permanent"} 2
`
	assert.Equal(t, testutil.GatherAndCompare(reg, strings.NewReader(want), "belfry_delivery_attempts_total"), nil)
	assert.Equal(t, testutil.CollectAndCount(w.metrics.duration), 1, "series of durations")
	_, err := New(Config{Registerer: reg})
	assert.Error(t, err, "metrics were registered twice")
}

func TestLogsTellNoSecrets(t *testing.T) {
	var logged bytes.Buffer
	w := newWebhook(t, func(c *Config) {
		c.Logger = slog.New(slog.NewTextHandler(&logged, &slog.HandlerOptions{Level: slog.LevelDebug}))
	})
	url := serve(t, answer(500, nil, "it broke"))
	w.Deliver(t.Context(), attemptOf(url+"/secret?key=secret", func(t *fsmpb.Task) {
		t.Spec.Payload = []byte(`"secret"`)
		t.Spec.Target.Headers = []*fsmpb.Header{{Name: "authorization", Value: "secret"}}
	}))
	for _, want := range []string{"task=order-1042-close", "destination=" + url, "result=failed", "it broke"} {
		if !strings.Contains(logged.String(), want) {
			t.Errorf("no %q in %s", want, &logged)
		}
	}
	if strings.Contains(logged.String(), "secret") {
		t.Errorf("logged a secret: %s", &logged)
	}
}
