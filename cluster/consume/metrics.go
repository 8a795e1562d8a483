package consume

import "github.com/prometheus/client_golang/prometheus"

type metrics struct {
	registerer prometheus.Registerer
	collectors []prometheus.Collector
	leased     prometheus.Counter
	released   prometheus.Counter
}

// newMetrics makes the metrics, and registers them unless registerer is nil.
func newMetrics(p *Consumers, registerer prometheus.Registerer) *metrics {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{
			Namespace: "belfry", Subsystem: "pull", Name: name, Help: help,
		})
	}
	m := &metrics{
		registerer: registerer,
		leased:     counter("leased_total", "Tasks that this node's consumers got."),
		released:   counter("released_total", "Tasks that came for this node's consumers and went back untouched."),
	}
	m.collectors = []prometheus.Collector{m.leased, m.released, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Namespace: "belfry", Subsystem: "pull", Name: "waiting_consumers", Help: "Consumers that wait at this node.",
	}, func() float64 {
		p.mu.Lock()
		defer p.mu.Unlock()
		return float64(p.waiting)
	})}
	if registerer != nil {
		registerer.MustRegister(m.collectors...)
	}
	return m
}

func (m *metrics) unregister() {
	if m.registerer == nil {
		return
	}
	for _, c := range m.collectors {
		m.registerer.Unregister(c)
	}
}
