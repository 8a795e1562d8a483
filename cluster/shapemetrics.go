package cluster

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/cluster/internal/reshape"
)

// shapeMetrics reports the replicas, moves and operations of the whole cluster, from this node's replica of the control
// group. All nodes report the same numbers, except for the moves that wait: only the group's leader knows them.
type shapeMetrics struct {
	state func() *clusterpb.ControlState
	shape func() *clusterpb.Shape // nil: this node does not lead the control group

	wanted, missing, moves, waiting, operations, outgrown *prometheus.Desc
}

// registerShape adds the shape of the cluster to the node's metrics.
func (n *Node) registerShape() {
	if n.cfg.Registerer == nil {
		return
	}
	n.cfg.Registerer.MustRegister(newShapeMetrics(n.control.State, func() *clusterpb.Shape {
		if g := n.control.Group(); g != nil {
			return g.Shape()
		}
		return nil
	}), prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "belfry_auto_split_bytes", Help: "Size at which shards split by themselves, as this node is set; 0: none does.",
	}, func() float64 {
		return float64(n.cfg.AutoSplit.Bytes)
	}), prometheus.NewCounterFunc(prometheus.CounterOpts{
		Name: "belfry_auto_splits_total", Help: "Splits that this node has begun by itself as the control group's leader.",
	}, func() float64 {
		if g := n.control.Group(); g != nil {
			return float64(g.AutoSplits())
		}
		return 0
	}))
}

func newShapeMetrics(state func() *clusterpb.ControlState, shape func() *clusterpb.Shape) *shapeMetrics {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("belfry_"+name, help, labels, nil)
	}
	return &shapeMetrics{
		state: state, shape: shape,
		wanted:  desc("replicas_wanted", "Replicas of all shards together, by the replication factor that operators want."),
		missing: desc("replicas_missing", "Replicas that shards have less than wanted."),
		moves:   desc("moves_under_way", "Shards on their way to other nodes."),
		waiting: desc("moves_waiting", "Of these, shards whose next step waits, by the class of the reason. Only the "+
			"control group's leader reports it.", "reason"),
		operations: desc("operations", "Operations under way, and the last that have ended.", "kind", "state"),
		outgrown: desc("shards_outgrown", "Shards above the size at which they split by themselves. Only the control "+
			"group's leader reports it, if there is such a size."),
	}
}

// Describe sends the descriptions of the metrics.
func (m *shapeMetrics) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{m.wanted, m.missing, m.moves, m.waiting, m.operations, m.outgrown} {
		out <- d
	}
}

// Collect sends the present values.
func (m *shapeMetrics) Collect(out chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, value int, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(value), labels...)
	}
	state := m.state()
	wanted, missing, moves := reshape.Wanted(state), 0, 0
	for _, s := range state.Shards {
		missing += max(wanted-len(s.Replicas), 0)
		if len(s.Target) > 0 {
			moves++
		}
	}
	gauge(m.wanted, wanted*len(state.Shards))
	gauge(m.missing, missing)
	gauge(m.moves, moves)
	shape := m.shape()
	if shape.GetAutoSplit() != nil {
		gauge(m.outgrown, len(shape.AutoSplit.Outgrown))
	}
	if shape != nil {
		for class, count := range waitClasses(shape) {
			gauge(m.waiting, count, class)
		}
	}
	for labels, count := range countOperations(state) {
		gauge(m.operations, count, labels[0], labels[1])
	}
}

// countOperations counts the operations on the cluster and the bulk operations, by kind and state.
func countOperations(state *clusterpb.ControlState) map[[2]string]int {
	counts := make(map[[2]string]int)
	add := func(kind string, state clusterpb.OperationState) {
		counts[[2]string{strings.ToLower(kind), strings.ToLower(strings.TrimPrefix(state.String(), "OPERATION_STATE_"))}]++
	}
	for _, op := range state.Operations {
		add(strings.TrimPrefix(op.Kind.String(), "OPERATION_KIND_"), op.State)
	}
	for _, op := range state.Bulks {
		add(strings.TrimPrefix(op.Kind.String(), "BULK_KIND_"), op.State)
	}
	return counts
}

// waitClasses counts the shards that wait by the class of the reason. A class without shards counts 0, so that its
// metric is there before the first shard waits.
func waitClasses(shape *clusterpb.Shape) map[string]int {
	counts := make(map[string]int)
	for number, name := range clusterpb.MoveWait_name {
		if number != int32(clusterpb.MoveWait_MOVE_WAIT_NONE) {
			counts[strings.ToLower(strings.TrimPrefix(name, "MOVE_WAIT_"))] = 0
		}
	}
	for _, class := range shape.WaitsFor {
		counts[strings.ToLower(strings.TrimPrefix(class.String(), "MOVE_WAIT_"))]++
	}
	return counts
}
