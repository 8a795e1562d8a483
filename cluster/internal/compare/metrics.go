package compare

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
)

type metrics struct {
	compared, divergences prometheus.Counter
	apart, out            *prometheus.GaugeVec
}

func newMetrics(r prometheus.Registerer) *metrics {
	m := &metrics{
		compared: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "belfry_replica_comparisons_total",
			Help: "State hashes of other replicas that were compared with this node's at the same log index.",
		}),
		divergences: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "belfry_replica_divergences_total",
			Help: "Times that another node's replica began to differ from this node's.",
		}),
		apart: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "belfry_replica_divergence",
			Help: "1 while a node's replica of a shard differs from this node's at the same log index.",
		}, []string{"shard", "node"}),
		out: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "belfry_replica_outvoted",
			Help: "1 if this node's replica of a shard differs from what a majority agrees in. It leads no more.",
		}, []string{"shard"}),
	}
	if r != nil {
		r.MustRegister(m.compared, m.divergences, m.apart, m.out)
	}
	return m
}

func (m *metrics) differs(shard uint32, node string, is bool) {
	m.apart.WithLabelValues(label(shard), node).Set(flag(is))
}

func (m *metrics) outvoted(shard uint32, is bool) { m.out.WithLabelValues(label(shard)).Set(flag(is)) }

func label(shard uint32) string { return strconv.FormatUint(uint64(shard), 10) }

func flag(is bool) float64 {
	if is {
		return 1
	}
	return 0
}
