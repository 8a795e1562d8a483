package cluster

import (
	"context"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/cluster/control"
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
)

// maxUnnamed bounds how many queues without a policy are listed: anybody may schedule into any queue, and so make them.
const maxUnnamed = control.MaxQueues

// Queue returns a queue's policy, nil if it has none, and what all shards hold of it; each shard's part is linearizable
// by itself. The policy has its secrets in it.
func (n *Node) Queue(ctx context.Context, namespace, queue string) (*fsmpb.QueuePolicy, *fsmpb.QueueCounts, error) {
	sums, err := n.router.Queues(ctx, &clusterpb.QueuesCall{Namespace: namespace, Queue: queue})
	if err != nil {
		return nil, nil, err
	}
	counts := &fsmpb.QueueCounts{Namespace: namespace, Queue: queue}
	if len(sums) > 0 {
		counts = sums[0]
	}
	return proto.CloneOf(control.Queue(n.state(), namespace, queue)), counts, nil
}

// Queues returns the queues of a namespace that have a policy, and those that have a task, tombstones included, sorted
// by name, with their counts as in Queue. Of those without a policy it returns the first 4096.
func (n *Node) Queues(ctx context.Context, namespace string) ([]task.Queue, error) {
	sums, err := n.router.Queues(ctx, &clusterpb.QueuesCall{Namespace: namespace, All: true})
	if err != nil {
		return nil, err
	}
	return join(control.Queues(n.state(), namespace), sums), nil
}

// join makes one list of two sorted ones.
func join(policies []*fsmpb.QueuePolicy, counts []*fsmpb.QueueCounts) []task.Queue {
	var all []task.Queue
	for unnamed := 0; len(policies)+len(counts) > 0; {
		switch order := compareHeads(policies, counts); {
		case order < 0:
			none := &fsmpb.QueueCounts{Namespace: policies[0].Namespace, Queue: policies[0].Queue}
			all = append(all, task.Queue{Policy: proto.CloneOf(policies[0]), Counts: none})
			policies = policies[1:]
		case order > 0:
			if unnamed++; unnamed <= maxUnnamed {
				all = append(all, task.Queue{Counts: counts[0]})
			}
			counts = counts[1:]
		default:
			all = append(all, task.Queue{Policy: proto.CloneOf(policies[0]), Counts: counts[0]})
			policies, counts = policies[1:], counts[1:]
		}
	}
	return all
}

// compareHeads says which list goes on by name: below 0 the policies, above 0 the counts. One of them has an element.
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

// Queues asks the replica here. Queues of which it holds nothing are left out.
func (r *replicas) Queues(ctx context.Context, id uint32, ask *clusterpb.QueuesCall) ([]*fsmpb.QueueCounts, error) {
	s, err := r.find(id)
	if err != nil {
		return nil, err
	}
	names := []string{ask.Queue}
	if ask.All {
		if names, err = s.Queues(ctx, ask.Namespace); err != nil {
			return nil, err
		}
		names = listed(control.Queues(r.node.state(), ask.Namespace), names)
	}
	counts, err := s.QueueCounts(ctx, ask.Namespace, names...)
	return slices.DeleteFunc(counts, holdsNothing), err
}

// listed keeps the names that have a policy and the first maxUnnamed others: of those that come first over all shards,
// each shard's are among its own first.
func listed(policies []*fsmpb.QueuePolicy, names []string) []string {
	unnamed := 0
	return slices.DeleteFunc(names, func(name string) bool {
		_, named := slices.BinarySearchFunc(policies, name, func(p *fsmpb.QueuePolicy, name string) int {
			return strings.Compare(p.Queue, name)
		})
		if named {
			return false
		}
		unnamed++
		return unnamed > maxUnnamed
	})
}

func holdsNothing(c *fsmpb.QueueCounts) bool {
	return c.Scheduled+c.Ready+c.Firing+c.Leased+c.Retrying+c.Delivered+c.Dead+c.Cancelled == 0
}
