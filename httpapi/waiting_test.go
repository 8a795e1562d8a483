package httpapi

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/belfryhq/belfry/client/view"
	"github.com/belfryhq/belfry/internal/assert"
)

func waitingConfig(t *testing.T, metrics prometheus.Gatherer) WaitingConfig {
	return WaitingConfig{
		Node: fullDisk{}, Origins: testOrigins(t), Metrics: metrics, Logger: slog.New(slog.DiscardHandler),
	}
}

// fullDisk is a node that waits for room on its disk.
type fullDisk struct{}

func (fullDisk) Barred() string { return "the disk is full" }

func (fullDisk) Doctor(context.Context) []view.Finding {
	return []view.Finding{{Severity: "critical", Code: "node-waits"}}
}

// TestWaiting checks that a waiting node answers every call with the reason, as a problem, and serves its metrics.
func TestWaiting(t *testing.T) {
	registry := prometheus.NewRegistry()
	registry.MustRegister(prometheus.NewGauge(prometheus.GaugeOpts{Name: "some_gauge"}))
	h := Waiting(waitingConfig(t, registry))
	for _, call := range [][2]string{
		{"GET", "/healthz"}, {"GET", "/readyz"}, {"PUT", "/v1/tasks/a"}, {"GET", "/v1/cluster"}, {"GET", "/"},
		{"POST", "/v1/batch"}, {"DELETE", "/nothing"},
	} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(call[0], call[1], strings.NewReader("{}")))
		var p struct{ Type, Detail, Committed string }
		assert.NoError(t, json.Unmarshal(w.Body.Bytes(), &p), "%v: %s", call, w.Body)
		if w.Code != 503 || p.Detail != "the disk is full" || p.Committed != "no" || w.Header().Get("Retry-After") == "" ||
			w.Header().Get("Content-Type") != "application/problem+json" {
			t.Errorf("%v: %d %v %s", call, w.Code, w.Header(), w.Body)
		}
	}
	rebound := httptest.NewRequest("GET", "/metrics", nil)
	rebound.Host = "rebound.example"
	w := httptest.NewRecorder()
	h.ServeHTTP(w, rebound)
	assert.Equal(t, w.Code, 403, "metrics by a foreign name: %s", w.Body)
	w = httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("GET", "/v1/doctor", nil))
	const finding = `{"findings":[{"severity":"critical","code":"node-waits","summary":"","do":[]}]}`
	if w.Code != 200 || strings.TrimSpace(w.Body.String()) != finding {
		t.Errorf("doctor: %d %s", w.Code, w.Body)
	}
	w = httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	if w.Code != 200 || !strings.Contains(w.Body.String(), "some_gauge") {
		t.Errorf("metrics: %d %s", w.Code, w.Body)
	}
}

// TestWaitingAnswersAStream checks that a refusal does not wait for a stream's body, which does not end before the
// answer.
func TestWaitingAnswersAStream(t *testing.T) {
	server := httptest.NewServer(Waiting(waitingConfig(t, prometheus.NewRegistry())))
	t.Cleanup(server.Close)
	body, writer := io.Pipe()
	t.Cleanup(func() { _ = writer.Close() }) // a pipe's Close never fails
	go func() { _, _ = io.WriteString(writer, `{"credit":1}`+"\n") }()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+"/v1/queues/mails/stream", body)
	assert.NoError(t, err)
	answer, err := http.DefaultClient.Do(r)
	assert.NoError(t, err)
	defer answer.Body.Close()
	assert.Equal(t, answer.StatusCode, http.StatusServiceUnavailable, "status")
}
