package peer

import "github.com/prometheus/client_golang/prometheus"

type metrics struct {
	drops *prometheus.CounterVec
}

func newMetrics(r prometheus.Registerer) *metrics {
	m := &metrics{drops: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "belfry_peer_dropped_connections_total",
		Help: "Connections to the peer port that were dropped before they were anybody's, by reason.",
	}, []string{"reason"})}
	if r != nil {
		r.MustRegister(m.drops)
	}
	return m
}

func (m *metrics) dropped(reason string) { m.drops.WithLabelValues(reason).Inc() }
