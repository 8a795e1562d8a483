package wire

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

type metrics struct {
	requests prometheus.Counter
	writes   prometheus.Counter
	refused  prometheus.Counter
}

// newMetrics makes the metrics, and registers them unless r is nil.
func newMetrics(r prometheus.Registerer) *metrics {
	with := promauto.With(r)
	return &metrics{
		requests: with.NewCounter(prometheus.CounterOpts{
			Name: "belfry_peer_append_requests_total",
			Help: "Heartbeats and requests with log entries that were sent to other nodes.",
		}),
		writes: with.NewCounter(prometheus.CounterOpts{
			Name: "belfry_peer_append_writes_total",
			Help: "Writes that took such requests, and the answers to those of others, to other nodes.",
		}),
		refused: with.NewCounter(prometheus.CounterOpts{
			Name: "belfry_peer_append_refused_total",
			Help: "Requests of other nodes that found too many waiting before them.",
		}),
	}
}
