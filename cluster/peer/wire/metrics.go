package wire

import "github.com/prometheus/client_golang/prometheus"

type metrics struct {
	requests prometheus.Counter
	writes   prometheus.Counter
	refused  prometheus.Counter
}

func newMetrics(r prometheus.Registerer) *metrics {
	m := &metrics{
		requests: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "belfry_peer_append_requests_total",
			Help: "Heartbeats and requests with log entries that were sent to other nodes.",
		}),
		writes: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "belfry_peer_append_writes_total",
			Help: "Writes that took such requests, and the answers to those of others, to other nodes.",
		}),
		refused: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "belfry_peer_append_refused_total",
			Help: "Requests of other nodes that found too many waiting before them.",
		}),
	}
	if r != nil {
		r.MustRegister(m.requests, m.writes, m.refused)
	}
	return m
}
