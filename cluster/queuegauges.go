package cluster

import (
	"iter"
	"time"

	"github.com/belfryhq/belfry/cluster/queuemetrics"
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
)

// registerQueues adds gauges for the tasks of each queue in the shards led here to the node's metrics.
func (n *Node) registerQueues() {
	if n.cfg.Registerer == nil {
		return
	}
	n.cfg.Registerer.MustRegister(queuemetrics.New(queuemetrics.Config{
		Bound:    n.cfg.QueueMetrics,
		Policies: func() []*fsmpb.QueuePolicy { return n.state().Queues },
		Sizes:    n.queueSizes,
		Now: func() time.Time {
			now, _ := n.Now()
			return now
		},
	}))
}

// queueSizes yields what each shard led here holds of each queue.
func (n *Node) queueSizes() iter.Seq[task.QueueSize] {
	return func(yield func(task.QueueSize) bool) {
		for _, s := range n.replicas.All() {
			for size := range s.QueueSizes() {
				if !yield(size) {
					return
				}
			}
		}
	}
}
