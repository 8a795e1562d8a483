package task

// QueueSize holds one shard's counts of a queue. The tombstones of delivered and cancelled tasks are not counted.
type QueueSize struct {
	Namespace, Queue string

	Pending  uint64 // scheduled, or between two attempts
	Ready    uint64 // due, and no attempt has begun
	InFlight uint64 // attempts under way and leases
	Dead     uint64

	// Pending tasks that come due within a minute and within an hour, exact to within two seconds.
	DueMinute, DueHour uint64

	OldestOverdueMs int64 // due time of the first ready task; 0: no task is ready
}

// Live returns the number of tasks that are counted.
func (s QueueSize) Live() uint64 { return s.Pending + s.Ready + s.InFlight + s.Dead }

// Add adds the counts of another shard for the same queue.
func (s *QueueSize) Add(other QueueSize) {
	s.Pending += other.Pending
	s.Ready += other.Ready
	s.InFlight += other.InFlight
	s.Dead += other.Dead
	s.DueMinute += other.DueMinute
	s.DueHour += other.DueHour
	if s.OldestOverdueMs == 0 || other.OldestOverdueMs != 0 && other.OldestOverdueMs < s.OldestOverdueMs {
		s.OldestOverdueMs = other.OldestOverdueMs
	}
}
