package shard

import (
	"cmp"
	"context"
	"iter"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/shard/dispatch"
)

// Get returns the task, or nil if there is none. The read is linearizable and returns *task.NotLeaderError on replicas
// that do not lead. With stale, any replica that is not barred answers from its applied state. The error is a
// *task.MovedError if the task's slot is not open; a stale read may also be of a sealed slot.
func (s *Shard) Get(ctx context.Context, namespace, id string, stale bool) (*fsmpb.Task, error) {
	return readAs(ctx, s, stale, func() (*fsmpb.Task, error) {
		found, slot := s.machine.Lookup(namespace, id)
		return found, s.shut(slot, stale)
	})
}

// List returns one page of this shard's tasks, from the query's slot on up to its end. Each page is linearizable by
// itself, or stale, as in Get. The error is a *task.MovedError if one of the slots is not open.
func (s *Shard) List(ctx context.Context, q *fsmpb.ListQuery, stale bool) (*fsmpb.ListPage, error) {
	end := min(cmp.Or(q.End, task.Slots), task.Slots)
	return readAs(ctx, s, stale, func() (*fsmpb.ListPage, error) {
		page, slot := s.machine.ListOpen(q, end)
		return page, s.shut(slot, stale)
	})
}

// readAs reads, then proves that this node led at a time after the read. In the opposite order, a newer leader could
// have committed in between (hashicorp/raft issue 603).
func readAs[T any](ctx context.Context, s *Shard, stale bool, read func() (T, error)) (T, error) {
	var none T
	if stale || flawReadsStale() {
		if s.standing.now() == Barred {
			return none, s.notLeader()
		}
		return read()
	}
	l, err := s.leadership(ctx)
	if err != nil {
		return none, err
	}
	if err := l.awaitReady(ctx); err != nil {
		return none, err
	}
	answer, err := read()
	if err != nil {
		return none, err
	}
	if err := l.verifier.verify(ctx); err != nil {
		return none, err
	}
	return answer, nil
}

// Queues returns the sorted names of a namespace's queues for which this shard holds a task or a rule. The read is
// linearizable and returns *task.NotLeaderError on replicas that do not lead.
func (s *Shard) Queues(ctx context.Context, namespace string) ([]string, error) {
	return readAs(ctx, s, false, func() ([]string, error) { return s.machine.Queues(namespace), nil })
}

// QueueCounts returns this shard's counts for each of the queues, in their order. AtLimit is set by the shard that owns
// the limits of the queue. The broken receivers are some moments old. QueueCounts reads as Queues does.
func (s *Shard) QueueCounts(ctx context.Context, namespace string, queues ...string) ([]*fsmpb.QueueCounts, error) {
	return readAs(ctx, s, false, func() ([]*fsmpb.QueueCounts, error) {
		now, _ := s.clock.now()
		counts := make([]*fsmpb.QueueCounts, 0, len(queues))
		for _, queue := range queues {
			count := s.machine.QueueCounts(namespace, queue, now.UnixMilli())
			if l := s.current(); l != nil {
				count.AtLimit = l.lender.Short(dispatch.QueueName{Namespace: namespace, Queue: queue})
				count.Broken = l.proposer.broken.Load().byQueue[dispatch.QueueName{Namespace: count.Namespace, Queue: count.Queue}]
			}
			counts = append(counts, count)
		}
		return counts, nil
	})
}

// NamespaceUse returns this shard's counts of a namespace. It reads as Queues does.
func (s *Shard) NamespaceUse(ctx context.Context, namespace string) (task.NamespaceUse, error) {
	return readAs(ctx, s, false, func() (task.NamespaceUse, error) { return s.machine.NamespaceUse(namespace), nil })
}

// Outlook counts the tasks that wait in this shard's wheel. It reads as Queues does.
func (s *Shard) Outlook(ctx context.Context) (*fsmpb.Outlook, error) {
	return readAs(ctx, s, false, func() (*fsmpb.Outlook, error) {
		now, _ := s.clock.now()
		return s.machine.Outlook(now.UnixMilli()), nil
	})
}

// Activity counts the events of this replica's applied entries, in the steps that begin after an instant, in Unix
// milliseconds. It reads as Queues does.
func (s *Shard) Activity(ctx context.Context, afterMs int64) (*fsmpb.Activity, error) {
	return readAs(ctx, s, false, func() (*fsmpb.Activity, error) {
		now, _ := s.clock.now()
		return s.applier.activity.Since(now.UnixMilli(), afterMs), nil
	})
}

// QueueSizes yields this shard's size of each queue, and nothing on a replica that does not lead. It asks no other
// replica: after a leader was cut off, it and its successor may both yield for a moment.
func (s *Shard) QueueSizes() iter.Seq[task.QueueSize] {
	if !s.IsLeader() {
		return func(func(task.QueueSize) bool) {}
	}
	now, _ := s.clock.now()
	return s.machine.QueueSizes(now.UnixMilli())
}

// Due returns the numbers of tasks that come due within each of the spans of an fsmpb.Outlook, and nil on a replica
// that does not lead. Like QueueSizes, it asks no other replica.
func (s *Shard) Due() []uint64 {
	if !s.IsLeader() {
		return nil
	}
	now, _ := s.clock.now()
	return s.machine.DueWithin(now.UnixMilli())
}
