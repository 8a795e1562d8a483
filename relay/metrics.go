package relay

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// metrics are the counts of a relay.
type metrics struct {
	registry              *prometheus.Registry
	rows, failures        *prometheus.CounterVec
	waiting, refused, lag prometheus.Gauge
}

func newMetrics() *metrics {
	counter := func(name, help, label string, values ...string) *prometheus.CounterVec {
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{label})
		for _, v := range values {
			c.WithLabelValues(v)
		}
		return c
	}
	gauge := func(name, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
	}
	m := &metrics{
		registry: prometheus.NewRegistry(),
		rows: counter("belfry_relay_rows_total", "Rows by what became of them. A row counts as waiting each time that it "+
			"got no final answer.", "state", stateWaiting, stateRelayed, stateRefused),
		failures: counter("belfry_relay_failures_total", "Failures of the database or the cluster, by the work that they "+
			"interrupted.", "work", "relay", "listen", "count", "purge"),
		waiting: gauge("belfry_relay_waiting_rows", "Rows in the table that wait."),
		refused: gauge("belfry_relay_refused_rows", "Rows in the table that were refused for good."),
		lag:     gauge("belfry_relay_lag_seconds", "Age of the oldest row that waits; 0: none does."),
	}
	m.registry.MustRegister(m.rows, m.failures, m.waiting, m.refused, m.lag,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

func (m *metrics) set(b backlog) {
	m.waiting.Set(float64(b.waiting))
	m.refused.Set(float64(b.refused))
	m.lag.Set(b.lag.Seconds())
}

// Handler serves /metrics, /healthz while the process lives, and /readyz, which answers 503 with the reason if the last
// batch failed.
func (r *Relay) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(r.metrics.registry, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /healthz", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.trouble != nil {
			http.Error(w, r.trouble.Error(), http.StatusServiceUnavailable)
		}
	})
	return mux
}
