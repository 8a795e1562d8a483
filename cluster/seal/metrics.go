package seal

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/belfryhq/belfry/fsm/fsmpb"
)

// Collector returns metrics that count the policies with secrets by the id of their key, and those that a node with
// these keys cannot open.
func Collector(keys *Keys, policies func() []*fsmpb.QueuePolicy) prometheus.Collector {
	return collector{keys, policies}
}

type collector struct {
	keys     *Keys
	policies func() []*fsmpb.QueuePolicy
}

var sealedQueues = prometheus.NewDesc("belfry_sealed_queues",
	"Queues with secrets in their policy, by the id of the cluster key that seals them; empty: in the clear.",
	[]string{"key"}, nil)

var unopenedQueues = prometheus.NewDesc("belfry_unopened_queues",
	"Queues whose secrets are sealed under a cluster key that this node does not have, by the id of the key.",
	[]string{"key"}, nil)

// Describe sends the descriptions of the metrics.
func (collector) Describe(to chan<- *prometheus.Desc) {
	to <- sealedQueues
	to <- unopenedQueues
}

// Collect counts the policies.
func (c collector) Collect(to chan<- prometheus.Metric) {
	by := map[string]int{}
	for _, p := range c.policies() {
		if p.Sealed != nil || HasPlain(p) {
			by[p.GetSealed().GetKey()]++
		}
	}
	has := c.keys.Ring().IDs()
	for key, n := range by {
		to <- prometheus.MustNewConstMetric(sealedQueues, prometheus.GaugeValue, float64(n), key)
		if key != "" && !slices.Contains(has, key) {
			to <- prometheus.MustNewConstMetric(unopenedQueues, prometheus.GaugeValue, float64(n), key)
		}
	}
}
