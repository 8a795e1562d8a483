package amqpapi

import "github.com/prometheus/client_golang/prometheus"

type metrics struct {
	connections prometheus.Gauge
	messages    *prometheus.CounterVec
}

// The results of a message that the intake keeps.
const (
	taken   = "taken"
	refused = "refused"
	failed  = "failed"
)

func newMetrics(r prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		connections: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "belfry_amqp_connections", Help: "Open connections of AMQP's clients.",
		}),
		messages: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "belfry_amqp_messages_total",
			Help: "Messages with a delay from AMQP's clients, by result: taken, refused as they are, or failed for now.",
		}, []string{"result"}),
	}
	for _, result := range []string{taken, refused, failed} {
		m.messages.WithLabelValues(result)
	}
	if r == nil {
		return m, nil
	}
	for _, c := range []prometheus.Collector{m.connections, m.messages} {
		if err := r.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}
