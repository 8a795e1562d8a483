package clocks

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

type metrics struct {
	offset, bound *prometheus.GaugeVec
}

func newMetrics(r prometheus.Registerer) *metrics {
	m := &metrics{
		offset: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "belfry_clock_offset_seconds",
			Help: "How far another node's clock is ahead of this one's.",
		}, []string{"node"}),
		bound: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "belfry_clock_offset_bound_seconds",
			Help: "By how much that offset may be wrong: half the round trip.",
		}, []string{"node"}),
	}
	if r != nil {
		r.MustRegister(m.offset, m.bound)
	}
	return m
}

func (m *metrics) measured(node string, offset, bound time.Duration) {
	m.offset.WithLabelValues(node).Set(offset.Seconds())
	m.bound.WithLabelValues(node).Set(bound.Seconds())
}

func (m *metrics) forget(node string) {
	m.offset.DeleteLabelValues(node)
	m.bound.DeleteLabelValues(node)
}
