package task

// RecordBytes is the part of a task's size that does not depend on its content: its record and its place in the index.
const RecordBytes = 72

// NamespaceUse holds one shard's counts of a namespace, or the sums over shards. The tombstones of delivered and
// cancelled tasks are not counted.
type NamespaceUse struct {
	Namespace string

	Pending uint64 // tasks that are scheduled, ready, firing or retrying
	Dead    uint64 // dead letters
	Bytes   uint64 // of the pending tasks and the dead letters, as kept in memory
	Queues  uint64 // queues with a task or a rule; the same queue counts in each shard
}

// Add adds the counts of another shard. The queues are not added up: a queue may be in both shards.
func (u *NamespaceUse) Add(other NamespaceUse) {
	u.Pending += other.Pending
	u.Dead += other.Dead
	u.Bytes += other.Bytes
	u.Queues = max(u.Queues, other.Queues)
}
