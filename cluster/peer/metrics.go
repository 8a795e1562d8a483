package peer

import "github.com/prometheus/client_golang/prometheus"

type metrics struct {
	drops   *prometheus.CounterVec
	packets prometheus.Counter
}

func newMetrics(r prometheus.Registerer) *metrics {
	m := &metrics{drops: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "belfry_peer_dropped_connections_total",
		Help: "Connections to the peer port that were dropped before a service of the node took them, by reason.",
	}, []string{"reason"}), packets: prometheus.NewCounter(prometheus.CounterOpts{
		Name: "belfry_peer_packets_total",
		Help: "Gossip packets that arrived at the peer port, strangers' included.",
	})}
	if r != nil {
		r.MustRegister(m.drops, m.packets)
	}
	return m
}

func (m *metrics) dropped(reason string) { m.drops.WithLabelValues(reason).Inc() }
