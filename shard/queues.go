package shard

import (
	"context"
	"iter"

	"github.com/belfryhq/belfry/fsm"
	"github.com/belfryhq/belfry/fsm/fsmpb"
)

// Queues returns the names of a namespace's queues that this shard holds a task of or a rule for, sorted; it is
// linearizable, and *fsm.NotLeaderError on replicas that do not lead.
func (s *Shard) Queues(ctx context.Context, namespace string) ([]string, error) {
	return readAs(ctx, s, false, func() []string { return s.machine.Queues(namespace) })
}

// QueueCounts returns what this shard holds of each of the queues, in their order, as in Queues.
func (s *Shard) QueueCounts(ctx context.Context, namespace string, queues ...string) ([]*fsmpb.QueueCounts, error) {
	return readAs(ctx, s, false, func() []*fsmpb.QueueCounts {
		now, _ := s.clock.now()
		counts := make([]*fsmpb.QueueCounts, 0, len(queues))
		for _, queue := range queues {
			counts = append(counts, s.machine.QueueCounts(namespace, queue, now.UnixMilli()))
		}
		return counts
	})
}

// QueueSizes yields what this shard holds of each queue, and nothing on a replica that does not lead. It asks no other
// replica: for a moment after a leader was cut off, it and its successor may both yield.
func (s *Shard) QueueSizes() iter.Seq[fsm.QueueSize] {
	if !s.IsLeader() {
		return func(func(fsm.QueueSize) bool) {}
	}
	return s.machine.QueueSizes()
}
