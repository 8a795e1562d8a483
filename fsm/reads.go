package fsm

import (
	"io"
	"iter"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/store"
	"github.com/belfryhq/belfry/fsm/task"
)

// Counts are the numbers of tasks, lanes and bytes of a machine: see store.Counts.
type Counts = store.Counts

// Snapshot is the state as it was at one moment: see store.Snapshot.
type Snapshot = store.Snapshot

// Snapshot takes a snapshot. There can be one at a time: Release it.
func (m *Machine) Snapshot() *Snapshot {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.store.Snapshot()
}

// Restore replaces the state by a snapshot's. The new state is built aside and checked against the snapshot's own state
// hash; after an error the old one is untouched.
func (m *Machine) Restore(r io.Reader) error {
	fresh, err := store.Restore(m.shard, r)
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	flawKeepsScheduled(fresh, m.store)
	m.store = fresh
	return nil
}

// Hash returns the state hash, and the number of the last change that is in it.
func (m *Machine) Hash() (number, sum uint64) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.store.Number, m.store.Hash()
}

// Get returns a task as it stands, tombstones included; nil if there is none of this id.
func (m *Machine) Get(namespace, id string) *fsmpb.Task {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if t := m.store.Find(namespace, id); t.Exists() {
		return t.View(true)
	}
	return nil
}

// Attempt returns the task whose current grant has this fence, with its payload, and the instant at which its lease
// ends. ok is false if the grant has been superseded, or if a cancel has stopped it.
func (m *Machine) Attempt(namespace, id string, fence uint64) (task *fsmpb.Task, leaseEndMs int64, ok bool) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	t := m.store.Find(namespace, id)
	if !t.Exists() || t.State() != fsmpb.State_STATE_FIRING || t.Fence() != fence || t.Outcome() != 0 {
		return nil, 0, false
	}
	return t.View(true), t.WaitsUntilMs(), true
}

// Remembers reports whether a call's task remembers the call's key. Such a call needs no memory.
func (m *Machine) Remembers(c *fsmpb.Command) bool {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.store.Find(c.Namespace, c.Id).Recall(c.Key) != nil
}

// List returns a page of the tasks in the slots [q.Slot, end): see store.Store.List.
func (m *Machine) List(q *fsmpb.ListQuery, end uint32) *fsmpb.ListPage {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.store.List(q, end)
}

// Counts returns the counts of the machine. Its cost does not grow with the tasks.
func (m *Machine) Counts() Counts {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.store.Counts()
}

// TombstoneBytes returns how many bytes the tombstones hold, which the bound in a policy is compared with.
func (m *Machine) TombstoneBytes() int64 {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.store.TombstoneBytes()
}

// Next returns the instant at which the earliest task in the wheel is due, exactly; ok is false if none waits. It may
// tidy the wheel, and so takes the writer's lock.
func (m *Machine) Next() (dueMs int64, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.store.Next()
}

// Position returns the instant to which the wheel has been advanced.
func (m *Machine) Position() int64 {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.store.Position()
}

// Loads returns the load of every lane that holds a task, in no particular order. A leader asks once, and learns the
// changes from each Applied.
func (m *Machine) Loads() []task.LaneLoad {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.store.Loads()
}

// LiveLeases returns the leases of the last few thousand that have neither been settled nor ended, the earliest first.
// A leader that begins asks their holders whether they arrived: the leader before may have died with them.
func (m *Machine) LiveLeases() []task.LiveLease {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.store.LiveLeases()
}

// Rules returns the rules of all queues that have one, sorted by namespace and queue, their names written out.
func (m *Machine) Rules() []*fsmpb.QueueRule {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.store.Rules()
}

// Queues returns the names of the queues of a namespace that hold a task, tombstones included, or have a rule, sorted.
func (m *Machine) Queues(namespace string) []string {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.store.Queues(namespace)
}

// QueueCounts returns the shard's counts of a queue, at nowMs: see store.Store.QueueCounts.
func (m *Machine) QueueCounts(namespace, queue string, nowMs int64) *fsmpb.QueueCounts {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.store.QueueCounts(namespace, queue, nowMs)
}

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

func (m *Machine) queueSizes(first int) (sizes []task.QueueSize, more bool) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.store.QueueSizes(first, queuesAtOnce)
}
