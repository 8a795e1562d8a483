package store

import (
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
)

// QueueSizes returns the sizes of the queues with a live task whose numbers are in [first, first+limit). more is set
// if there are higher numbers.
func (s *Store) QueueSizes(first, limit int) (sizes []task.QueueSize, more bool) {
	list := s.queues.values
	end := min(first+limit, len(list))
	for _, q := range list[min(first, end):end] {
		if q == nil {
			continue
		}
		if size := q.size(); size.Live() > 0 {
			sizes = append(sizes, size)
		}
	}
	return sizes, end < len(list)
}

func (q *queue) size() task.QueueSize {
	in := func(state fsmpb.State) uint64 { return uint64(q.tasks[state]) }
	size := task.QueueSize{
		Namespace: q.namespace, Queue: q.name,
		Pending:  in(fsmpb.State_STATE_SCHEDULED) + in(fsmpb.State_STATE_RETRYING),
		Ready:    in(fsmpb.State_STATE_READY),
		InFlight: in(fsmpb.State_STATE_FIRING),
		Dead:     in(fsmpb.State_STATE_DEAD),
	}
	if len(q.waiting) > 0 {
		size.OldestOverdueMs = q.waiting[0].overdue
	}
	return size
}
