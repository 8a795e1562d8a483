package journal

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

type metrics struct{ syncs, writes prometheus.Counter }

// newMetrics returns the journal's metrics, registered with r if that is not nil.
func newMetrics(r prometheus.Registerer) *metrics {
	with := promauto.With(r)
	return &metrics{
		syncs: with.NewCounter(prometheus.CounterOpts{
			Name: "belfry_journal_syncs_total",
			Help: "Syncs of the journal that the logs of all shards on this node share.",
		}),
		writes: with.NewCounter(prometheus.CounterOpts{
			Name: "belfry_journal_writes_total",
			Help: "Appends to logs that these syncs made durable.",
		}),
	}
}
