package audit

import "github.com/prometheus/client_golang/prometheus"

// metrics holds the metrics of a log. They also work unregistered.
type metrics struct {
	records *prometheus.CounterVec // by kind
	lost    prometheus.Counter
	failing prometheus.Gauge
}

func newMetrics() metrics {
	return metrics{
		records: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "belfry_audit_records_total", Help: "Records of the audit log, by kind: change or refusal.",
		}, []string{"kind"}),
		lost: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "belfry_audit_lost_records_total", Help: "Records of the audit log that could not be written.",
		}),
		failing: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "belfry_audit_failing", Help: "1 if the last write of the audit log failed.",
		}),
	}
}

func (m *metrics) register(r prometheus.Registerer) error {
	if r == nil {
		return nil
	}
	for _, c := range []prometheus.Collector{m.records, m.lost, m.failing} {
		if err := r.Register(c); err != nil {
			return err
		}
	}
	return nil
}
