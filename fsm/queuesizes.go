package fsm

import (
	"iter"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
)

// queuesAtOnce bounds how many queues are read under one hold of the machine's lock.
const queuesAtOnce = 1000

// QueueSizes yields the size of each queue with a live task, of all namespaces and in no order. Its cost does not grow
// with the tasks. The machine may change between two of them, and a queue that is new or gone meanwhile may be missed.
func (m *Machine) QueueSizes() iter.Seq[task.QueueSize] {
	return func(yield func(task.QueueSize) bool) {
		for first, more := 0, true; more; first += queuesAtOnce {
			var sizes []task.QueueSize
			sizes, more = m.queueSizes(first)
			for _, size := range sizes {
				if !yield(size) {
					return
				}
			}
		}
	}
}

// queueSizes reads the queues numbered from first on, and reports whether there are more after them.
func (m *Machine) queueSizes(first int) (sizes []task.QueueSize, more bool) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	list := m.queues.list
	end := min(first+queuesAtOnce, len(list))
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
	of := func(state fsmpb.State) uint64 { return uint64(q.tasks[state]) }
	size := task.QueueSize{
		Namespace: q.namespace, Queue: q.name,
		Pending:  of(fsmpb.State_STATE_SCHEDULED) + of(fsmpb.State_STATE_RETRYING),
		Ready:    of(fsmpb.State_STATE_READY),
		InFlight: of(fsmpb.State_STATE_FIRING),
		Dead:     of(fsmpb.State_STATE_DEAD),
	}
	if len(q.waiting) > 0 {
		size.OldestOverdueMs = q.waiting[0].overdue
	}
	return size
}
