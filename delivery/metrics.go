package delivery

import (
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/belfryhq/belfry/internal/histogram"
)

// result is the class of an attempt's outcome in the metrics.
type result int

const (
	resultDelivered result = iota
	resultFailed
	resultPermanent
	resultAborted
	results // the number of results
)

func (r result) String() string {
	return [results]string{"delivered", "failed", "permanent", "aborted"}[r]
}

// metrics has no label for destinations, since callers choose destinations and their number is unbounded.
type metrics struct {
	attempts [results]prometheus.Counter
	duration prometheus.Histogram
}

func newMetrics(reg prometheus.Registerer) (*metrics, error) {
	attempts := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "belfry_delivery_attempts_total",
		Help: "Webhook attempts that ended, by outcome.",
	}, []string{"result"})
	duration := prometheus.NewHistogram(histogram.Both(prometheus.HistogramOpts{
		Name:    "belfry_delivery_attempt_duration_seconds",
		Help:    "How long webhook requests took, connecting included. A batch of attempts is one request.",
		Buckets: []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 15, 30, 60, 300, 600},
	}))
	m := &metrics{duration: duration}
	for r := range results {
		m.attempts[r] = attempts.WithLabelValues(r.String())
	}
	if reg == nil {
		return m, nil
	}
	for _, c := range []prometheus.Collector{attempts, duration} {
		if err := reg.Register(c); err != nil {
			return nil, fmt.Errorf("delivery: registering metrics: %w", err)
		}
	}
	return m, nil
}

func (m *metrics) attempt(r result) { m.attempts[r].Inc() }

func (m *metrics) request(took time.Duration) { m.duration.Observe(took.Seconds()) }
