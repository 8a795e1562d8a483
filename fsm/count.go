package fsm

import "github.com/belfryhq/belfry/fsm/fsmpb"

// Tasks are counted for the shard, for their queue and for their slot, and so is how many of a queue come due when. All
// of it is kept where the state hash is kept: lift takes a task out, land puts it back, changed.

// tally counts a task n more times, 1 or -1, as what it is now.
func (s *state) tally(r *record, n int) {
	q := s.queueOf(r)
	s.counts[r.state] += n
	q.tasks[r.state] += n
	if r.is(fsmpb.State_STATE_FIRING) && s.progress.Read(r.progress).leased {
		q.leased += n
	}
}

// QueueCounts returns what the shard holds of a queue, at nowMs. What it costs does not grow with the tasks.
func (m *Machine) QueueCounts(namespace, queue string, nowMs int64) *fsmpb.QueueCounts {
	key := keyOfQueue(namespace, queue)
	counts := &fsmpb.QueueCounts{Namespace: key.namespace, Queue: key.name}
	m.mu.RLock()
	defer m.mu.RUnlock()
	q := m.queues.find(key)
	if q == nil {
		return counts
	}
	of := func(state fsmpb.State) uint64 { return uint64(q.tasks[state]) }
	counts.Scheduled = of(fsmpb.State_STATE_SCHEDULED)
	counts.Ready = of(fsmpb.State_STATE_READY)
	counts.Firing = of(fsmpb.State_STATE_FIRING) - uint64(q.leased)
	counts.Leased = uint64(q.leased)
	counts.Retrying = of(fsmpb.State_STATE_RETRYING)
	counts.Delivered = of(fsmpb.State_STATE_DELIVERED)
	counts.Dead = of(fsmpb.State_STATE_DEAD)
	counts.Cancelled = of(fsmpb.State_STATE_CANCELLED)
	return counts
}
