package cluster

import (
	"context"
	"iter"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/cluster/control"
	"github.com/belfryhq/belfry/cluster/queuemetrics"
	"github.com/belfryhq/belfry/cluster/replicas"
	"github.com/belfryhq/belfry/cluster/seal"
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
)

// Policies returns the policies of the queues and the calendars, to read and to change on this node.
func (n *Node) Policies() *control.Policies { return n.policies }

// Queue returns a queue's policy, nil if it has none, and its counts over all shards. Each shard's part is
// linearizable by itself. The policy contains its secrets, in the clear if this node has their cluster key.
func (n *Node) Queue(ctx context.Context, namespace, queue string) (*fsmpb.QueuePolicy, *fsmpb.QueueCounts, error) {
	sums, err := n.router.Queues(ctx, &clusterpb.QueuesCall{Namespace: namespace, Queue: queue})
	if err != nil {
		return nil, nil, err
	}
	counts := &fsmpb.QueueCounts{Namespace: namespace, Queue: queue}
	if len(sums) > 0 {
		counts = sums[0]
	}
	return proto.CloneOf(n.policies.Policy(namespace, queue)), counts, nil
}

// Queues returns the queues of a namespace that have a policy or a task, tombstones included, sorted by name, with
// their counts as in Queue. Of the queues without a policy it returns the first 4096.
func (n *Node) Queues(ctx context.Context, namespace string) ([]task.Queue, error) {
	sums, err := n.router.Queues(ctx, &clusterpb.QueuesCall{Namespace: namespace, All: true})
	if err != nil {
		return nil, err
	}
	queues := join(control.Queues(n.control.State(), namespace), sums)
	for i := range queues {
		queues[i].Policy = proto.CloneOf(n.policies.Open(queues[i].Policy))
	}
	return queues, nil
}

// NamespaceUse returns the use of a namespace over all shards. Each shard's part is linearizable by itself. The queues
// are counted as Queues lists them.
func (n *Node) NamespaceUse(ctx context.Context, namespace string) (task.NamespaceUse, error) {
	use, err := n.router.NamespaceUse(ctx, namespace)
	if err != nil {
		return task.NamespaceUse{}, err
	}
	sums, err := n.router.Queues(ctx, &clusterpb.QueuesCall{Namespace: namespace, All: true})
	use.Queues = uint64(len(join(control.Queues(n.control.State(), namespace), sums)))
	return use, err
}

// join merges two sorted lists into one. It does not copy the policies.
func join(policies []*fsmpb.QueuePolicy, counts []*fsmpb.QueueCounts) []task.Queue {
	var all []task.Queue
	for unnamed := 0; len(policies)+len(counts) > 0; {
		switch order := compareHeads(policies, counts); {
		case order < 0:
			none := &fsmpb.QueueCounts{Namespace: policies[0].Namespace, Queue: policies[0].Queue}
			all = append(all, task.Queue{Policy: policies[0], Counts: none})
			policies = policies[1:]
		case order > 0:
			if unnamed++; unnamed <= replicas.MaxUnnamed {
				all = append(all, task.Queue{Counts: counts[0]})
			}
			counts = counts[1:]
		default:
			all = append(all, task.Queue{Policy: policies[0], Counts: counts[0]})
			policies, counts = policies[1:], counts[1:]
		}
	}
	return all
}

// compareHeads reports which list has the next name: the policies if it is below 0, the counts if above, both if 0. At
// least one list has an element.
func compareHeads(policies []*fsmpb.QueuePolicy, counts []*fsmpb.QueueCounts) int {
	switch {
	case len(counts) == 0:
		return -1
	case len(policies) == 0:
		return 1
	default:
		return strings.Compare(policies[0].Queue, counts[0].Queue)
	}
}

// registerQueues adds gauges for the tasks in the shards led here, also of each queue, to the node's metrics.
func (n *Node) registerQueues() {
	if n.cfg.Registerer == nil {
		return
	}
	n.cfg.Registerer.MustRegister(seal.Collector(n.cfg.Secrets, queueSource{n}.Policies))
	queues := queuemetrics.New(n.cfg.QueueMetrics, queueSource{n})
	n.cfg.Registerer.MustRegister(n.lateness, queuemetrics.Bounded(queues, queuemetrics.Patience),
		queuemetrics.Bounded(queuemetrics.Due(queueSource{n}), queuemetrics.Patience))
}

// queueSource has the queues of the cluster, and the tasks in the shards led here.
type queueSource struct{ n *Node }

func (q queueSource) Policies() []*fsmpb.QueuePolicy { return q.n.control.State().Queues }

func (q queueSource) Exists(namespace string) bool { return exists(q.n.control.State(), namespace) }

func (q queueSource) Now() time.Time {
	now, _ := q.n.Now()
	return now
}

func (q queueSource) Due() (within []uint64) {
	for _, s := range q.n.replicas.All() {
		for i, due := range s.Due() {
			if i == len(within) {
				within = append(within, 0)
			}
			within[i] += due
		}
	}
	return within
}

func (q queueSource) Sizes() iter.Seq[task.QueueSize] {
	return func(yield func(task.QueueSize) bool) {
		for _, s := range q.n.replicas.All() {
			for size := range s.QueueSizes() {
				if !yield(size) {
					return
				}
			}
		}
	}
}

// Outlook adds up the tasks that wait in the timing wheels of shards, from all nodes; shard 0 stands for all shards. It
// leaves out the shards whose leaders do not answer within two seconds, and returns their ids.
func (n *Node) Outlook(ctx context.Context, shard uint32) (sum *fsmpb.Outlook, missing []uint32, err error) {
	return n.router.Outlook(ctx, shard)
}

// Activity adds up the events of shards in the last quarter of an hour, in the steps that begin after an instant in
// Unix milliseconds; see Outlook.
func (n *Node) Activity(
	ctx context.Context, shard uint32, afterMs int64,
) (sum *fsmpb.Activity, missing []uint32, err error) {
	return n.router.Activity(ctx, shard, afterMs)
}
