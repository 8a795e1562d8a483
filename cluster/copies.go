package cluster

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/belfryhq/belfry/raftgroup/copies"
)

// newCopies returns the meter of the snapshots that this node sends, and of the tasks that move to shards led here.
func (n *Node) newCopies() *copies.Meter {
	m := copies.NewMeter(n.cfg.MoveRate)
	if n.cfg.Registerer != nil {
		n.cfg.Registerer.MustRegister(
			sentBytes(m, true), sentBytes(m, false),
			prometheus.NewCounterFunc(prometheus.CounterOpts{
				Name: "belfry_slots_copied_bytes_total",
				Help: "Bytes of tasks that have moved, under the limit, to shards that this node led.",
			}, func() float64 { return float64(m.Paced()) }),
			prometheus.NewGaugeFunc(prometheus.GaugeOpts{
				Name: "belfry_copies_under_way", Help: "Snapshots that this node is sending to other replicas.",
			}, func() float64 { return float64(len(m.UnderWay())) }),
			prometheus.NewGaugeFunc(prometheus.GaugeOpts{
				Name: "belfry_copy_limit_bytes_per_second",
				Help: "Limit on the snapshots that this node sends to replicas without a vote, and on the tasks that move to " +
					"shards led here, together; 0: no limit.",
			}, func() float64 { return float64(n.cfg.MoveRate) }),
		)
	}
	return m
}

// sentBytes returns the counter of the snapshots that a meter has sent under the limit, or of the others.
func sentBytes(m *copies.Meter, limited bool) prometheus.Collector {
	return prometheus.NewCounterFunc(prometheus.CounterOpts{
		Name: "belfry_copy_sent_bytes_total",
		Help: "Bytes of snapshots that this node has sent to other replicas. The limit applies to replicas without a vote, " +
			"unless the log outgrew an earlier copy.",
		ConstLabels: prometheus.Labels{"limited": strconv.FormatBool(limited)},
	}, func() float64 { return float64(m.Sent(limited)) })
}

// copySharers is the number of copies that may share a node's limit, at least: see movesAll of package control.
const copySharers = 8

// leastCopyRate returns the pace below which a copy has failed, for a limit; 0: the usual one.
func leastCopyRate(limit int64) int64 { return limit / copySharers }
