package audit

import "github.com/prometheus/client_golang/prometheus"

// metrics holds the metrics of a log. They also work unregistered. Reading them waits for no disk.
type metrics struct {
	records  *prometheus.CounterVec // by kind
	lost     prometheus.Counter
	roomless prometheus.Counter
	waiting  prometheus.GaugeFunc
	failing  prometheus.GaugeFunc
}

func newMetrics(l *Log) *metrics {
	return &metrics{
		records: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "belfry_audit_records_total", Help: "Records of the audit log, by kind: change or refusal.",
		}, []string{"kind"}),
		lost: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "belfry_audit_lost_records_total",
			Help: "Records that could not be written to the audit log, or to its copy on standard output.",
		}),
		roomless: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "belfry_audit_refused_changes_total",
			Help: "Changes that were not carried out because the audit log had no room for their records.",
		}),
		waiting: prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "belfry_audit_waiting_records", Help: "Records of changes that wait for the disk of the audit log.",
		}, func() float64 { return float64(len(l.changes.queue)) }),
		failing: prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "belfry_audit_failing", Help: "1 if the last write of the audit log failed, or has not ended for a second.",
		}, func() float64 {
			if l.Failing() != nil {
				return 1
			}
			return 0
		}),
	}
}

func (m *metrics) register(r prometheus.Registerer) error {
	if r == nil {
		return nil
	}
	for _, c := range []prometheus.Collector{m.records, m.lost, m.roomless, m.waiting, m.failing} {
		if err := r.Register(c); err != nil {
			return err
		}
	}
	return nil
}
