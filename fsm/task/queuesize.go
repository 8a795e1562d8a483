package task

// QueueSize is what one shard holds of a queue, without the tombstones of tasks that were delivered or cancelled.
type QueueSize struct {
	Namespace, Queue string

	Pending  uint64 // scheduled, or between two attempts
	Ready    uint64 // due, and no attempt has begun
	InFlight uint64 // attempts under way and leases
	Dead     uint64

	OldestOverdueMs int64 // when the first of the ready tasks was due; 0: none is ready
}

// Live is the number of tasks that are counted.
func (s QueueSize) Live() uint64 { return s.Pending + s.Ready + s.InFlight + s.Dead }

// Add adds what another shard holds of the same queue.
func (s *QueueSize) Add(other QueueSize) {
	s.Pending += other.Pending
	s.Ready += other.Ready
	s.InFlight += other.InFlight
	s.Dead += other.Dead
	if s.OldestOverdueMs == 0 || other.OldestOverdueMs != 0 && other.OldestOverdueMs < s.OldestOverdueMs {
		s.OldestOverdueMs = other.OldestOverdueMs
	}
}
