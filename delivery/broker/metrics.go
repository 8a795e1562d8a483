package broker

import (
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/belfryhq/belfry/fsm/task/targeturl"
	"github.com/belfryhq/belfry/internal/histogram"
)

// result is the class of an attempt's outcome in the metrics.
type result string

const (
	resultDelivered result = "delivered"
	resultFailed    result = "failed"
	resultPermanent result = "permanent"
	resultAborted   result = "aborted"
)

// metrics has no label for brokers, since callers choose brokers and their number is unbounded.
type metrics struct {
	attempts *prometheus.CounterVec
	duration *prometheus.HistogramVec
	open     prometheus.Gauge
}

func newMetrics(reg prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		attempts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "belfry_broker_attempts_total",
			Help: "Attempts to publish to a broker that ended, by its kind and by outcome.",
		}, []string{"kind", "result"}),
		duration: prometheus.NewHistogramVec(histogram.Both(prometheus.HistogramOpts{
			Name:    "belfry_broker_attempt_duration_seconds",
			Help:    "How long it took until a broker had confirmed a message or the attempt had failed, connecting included.",
			Buckets: []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 15, 30, 60, 300, 600},
		}), []string{"kind"}),
		open: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "belfry_broker_connections",
			Help: "Brokers that this node is connected to, or connecting.",
		}),
	}
	if reg == nil {
		return m, nil
	}
	for _, c := range []prometheus.Collector{m.attempts, m.duration, m.open} {
		if err := reg.Register(c); err != nil {
			return nil, fmt.Errorf("broker: registering metrics: %w", err)
		}
	}
	return m, nil
}

func (m *metrics) ended(kind targeturl.Kind, r result, took time.Duration) {
	m.attempts.WithLabelValues(kind.String(), string(r)).Inc()
	m.duration.WithLabelValues(kind.String()).Observe(took.Seconds())
}
