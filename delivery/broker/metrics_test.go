package broker

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
	good := "redis://" + fakeRedis(t, nil) + "/?stream=s"
	p := newPublisher(t, func(c *Config) { c.Registerer = reg }, permit(t, good))
	for range 3 {
		p.Deliver(t.Context(), attemptOf(good))
	}
	p.Deliver(t.Context(), attemptOf("nats://127.0.0.1/unknown"))
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	p.Deliver(ended, attemptOf(good))
	const want = `
# HELP belfry_broker_attempts_total Attempts to publish to a broker that ended, by its kind and by outcome.
# TYPE belfry_broker_attempts_total counter
belfry_broker_attempts_total{kind="nats",result="failed"} 1
belfry_broker_attempts_total{kind="redis",result="aborted"} 1
belfry_broker_attempts_total{kind="redis",result="delivered"} 3
# HELP belfry_broker_connections Brokers that this node is connected to, or connecting.
# TYPE belfry_broker_connections gauge
belfry_broker_connections 1
`
	names := []string{"belfry_broker_attempts_total", "belfry_broker_connections"}
	assert.Equal(t, testutil.GatherAndCompare(reg, strings.NewReader(want), names...), nil)
	_, err := New(Config{Registerer: reg})
	assert.Error(t, err, "metrics were registered twice")
	_, err = New(Config{Patience: -1})
	assert.Error(t, err, "a negative limit")
}

func TestLogsTellNoSecrets(t *testing.T) {
	var logged bytes.Buffer
	url := "redis://" + fakeRedis(t, func(command string) string {
		return map[string]string{"xadd": "-OOM too full\r\n"}[command]
	}) + "/?stream=secret"
	broker, _, _ := strings.Cut(url, "/?")
	p := newPublisher(t, withFile(t, broker+": {password: secret}"), func(c *Config) {
		c.Logger = slog.New(slog.NewTextHandler(&logged, &slog.HandlerOptions{Level: slog.LevelDebug}))
	})
	p.Deliver(t.Context(), attemptOf(url, func(t *fsmpb.Task) {
		t.Spec.Payload = []byte(`"secret"`)
		t.Spec.Target.Headers = []*fsmpb.Header{{Name: "authorization", Value: "secret"}}
	}))
	for _, want := range []string{"task=order-1042", "destination=" + broker, "result=failed"} {
		if !strings.Contains(logged.String(), want) {
			t.Errorf("no %q in %s", want, &logged)
		}
	}
	if strings.Contains(logged.String(), "secret") {
		t.Errorf("logged a secret: %s", &logged)
	}
}
