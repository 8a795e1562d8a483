package seal

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/belfryhq/belfry/fsm/fsmpb"
)

// Collector returns a metric that counts the policies with secrets by the id of their key. The id of those in the clear
// is empty.
func Collector(policies func() []*fsmpb.QueuePolicy) prometheus.Collector { return collector{policies} }

type collector struct{ policies func() []*fsmpb.QueuePolicy }

var sealedQueues = prometheus.NewDesc("belfry_sealed_queues",
	"Queues with secrets in their policy, by the id of the cluster key that seals them; empty: in the clear.",
	[]string{"key"}, nil)

// Describe sends the metric's description.
func (collector) Describe(to chan<- *prometheus.Desc) { to <- sealedQueues }

// Collect counts the policies.
func (c collector) Collect(to chan<- prometheus.Metric) {
	by := map[string]int{}
	for _, p := range c.policies() {
		if p.Sealed != nil || HasPlain(p) {
			by[p.GetSealed().GetKey()]++
		}
	}
	for key, n := range by {
		to <- prometheus.MustNewConstMetric(sealedQueues, prometheus.GaugeValue, float64(n), key)
	}
}
