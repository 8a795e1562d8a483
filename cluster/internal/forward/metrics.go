package forward

import "github.com/prometheus/client_golang/prometheus"

// Metrics counts the calls and messages of all clients of a node.
type Metrics struct {
	calls, messages prometheus.Counter
}

// NewMetrics returns Metrics, registered with r unless it is nil.
func NewMetrics(r prometheus.Registerer) *Metrics {
	m := &Metrics{
		calls: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "belfry_forward_calls_total", Help: "Calls sent to other nodes.",
		}),
		messages: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "belfry_forward_messages_total", Help: "Messages in which they were sent.",
		}),
	}
	if r != nil {
		r.MustRegister(m.calls, m.messages)
	}
	return m
}

func (m *Metrics) message(calls int) {
	m.calls.Add(float64(calls))
	m.messages.Inc()
}
