package fsm

import (
	"io"
	"iter"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/internal/store"
	"github.com/belfryhq/belfry/fsm/task"
)

// Counts holds the numbers of tasks, lanes and bytes of a machine: see store.Counts.
type Counts = store.Counts

// Snapshot is a view of the state at one moment: see store.Snapshot.
type Snapshot = store.Snapshot

// Snapshot takes a snapshot. The caller must Release it before it takes the next one.
func (m *Machine) Snapshot() *Snapshot {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.store.Snapshot()
}

// Restore replaces the state by the state of a snapshot. It builds the new state aside and checks it against the
// snapshot's own state hash. After an error the old state is untouched.
func (m *Machine) Restore(r io.Reader) error {
	fresh, err := store.Restore(m.applier.shard, r)
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	flawKeepsScheduled(fresh, m.store)
	m.store, m.applier.store = fresh, fresh
	m.store.Observe(m.observer)
	m.moving.Store(!m.store.Slots.AllOpen())
	return nil
}

// Hash returns the state hash and the number of the last change that the hash covers.
func (m *Machine) Hash() (number, sum uint64) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.store.Number, m.store.Hash()
}

// Get returns a task in its present state, tombstones included. It returns nil if no task has this id, or if another
// shard owns the task's slot.
func (m *Machine) Get(namespace, id string) *fsmpb.Task {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if t := m.store.FindOwn(namespace, id); t.Exists() {
		return t.View(true)
	}
	return nil
}

// Lookup returns a task as Get does, and the state of its slot.
func (m *Machine) Lookup(namespace, id string) (*fsmpb.Task, SlotState) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	s := m.store.Slots.At(task.Slot(namespace, id))
	if t := m.store.FindOwn(namespace, id); t.Exists() {
		return t.View(true), s
	}
	return nil, s
}

// Attempt returns the task whose current grant has this fence, with its payload, and the instant at which its lease
// ends. ok is false if the grant has been superseded or a cancel has stopped it.
func (m *Machine) Attempt(namespace, id string, fence uint64) (task *fsmpb.Task, leaseEndMs int64, ok bool) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	t := m.store.Find(namespace, id)
	if !t.Exists() || t.State() != fsmpb.State_STATE_FIRING || t.Fence() != fence || t.Outcome() != 0 {
		return nil, 0, false
	}
	return t.View(true), t.WaitsUntilMs(), true
}

// WantingSeries returns at most limit schedules that want coming instants, without their payloads and in no order. It
// leaves out schedules in slots that are not open.
func (m *Machine) WantingSeries(limit int) []*fsmpb.Task {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.store.Schedules.Wanting(limit)
}

// OutdatedSeries returns at most limit schedules whose coming instants were computed by another version of their
// calendar than the current one: see store.Schedules.Outdated.
func (m *Machine) OutdatedSeries(limit int, current func(namespace, calendar string) uint64) []*fsmpb.Task {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.store.Schedules.Outdated(limit, current)
}

// Remembers reports whether a call's task remembers the call's key. Such a call needs no memory.
func (m *Machine) Remembers(c *fsmpb.Command) bool {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.store.Find(c.Namespace, c.Id).Recall(c.Key) != nil
}

// List returns a page of tasks in the slots before end: see store.Store.List.
func (m *Machine) List(q *fsmpb.ListQuery, end uint32) *fsmpb.ListPage {
	page, _ := m.ListOpen(q, end)
	return page
}

// ListOpen returns a page as List does, and the state of the first listed slot that is not open, or the zero state if
// there is none.
func (m *Machine) ListOpen(q *fsmpb.ListQuery, end uint32) (*fsmpb.ListPage, SlotState) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	page := m.store.List(q, end)
	for p := range m.store.Slots.In(store.ListedSlots(q, end)) {
		if p.Phase != open {
			return page, p.State
		}
	}
	return page, SlotState{}
}

// Counts returns the counts of the machine. Its cost does not depend on the number of tasks.
func (m *Machine) Counts() Counts {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.store.Counts()
}

// TombstoneBytes returns the number of bytes that the tombstones hold, which the policy bounds.
func (m *Machine) TombstoneBytes() int64 {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.store.TombstoneBytes()
}

// Next returns the exact instant at which the earliest task in the wheel is due. ok is false if the wheel is empty.
// Next may tidy the wheel and therefore takes the writer's lock.
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

// Loads returns the load of every lane that holds a task, in no particular order. A leader calls it once and learns of
// the changes from each Applied.
func (m *Machine) Loads() []task.LaneLoad {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.store.Lanes.Loads()
}

// LiveLeases returns the leases among the last few thousand that are neither settled nor ended, the earliest first. A
// new leader asks their holders whether the leases arrived, because the tasks may have been lost with the previous
// leader.
func (m *Machine) LiveLeases() []task.LiveLease {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.store.LiveLeases()
}

// Rules returns copies of the rules of all queues that have one, sorted by namespace and queue, with names written
// out.
func (m *Machine) Rules() []*fsmpb.QueueRule {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.store.Queues().Rules()
}

// Queues returns the sorted names of a namespace's queues that have a rule or hold a task, tombstones included.
func (m *Machine) Queues(namespace string) []string {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.store.Queues().Names(namespace)
}

// QueueCounts returns the shard's counts of a queue, at nowMs: see store.Queues.Counts.
func (m *Machine) QueueCounts(namespace, queue string, nowMs int64) *fsmpb.QueueCounts {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.store.Queues().Counts(namespace, queue, nowMs)
}

// NamespaceUse returns the shard's counts of a namespace: see store.Queues.Use.
func (m *Machine) NamespaceUse(namespace string) task.NamespaceUse {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.store.Queues().Use(namespace)
}

// Drops returns the number of times that tasks have left with their slots since the process began. It rises no later
// than NamespaceUse falls for that reason.
func (m *Machine) Drops() uint64 { return m.applier.drops.Load() }

// TaskUse returns the bytes that the task with this id counts with in NamespaceUse, and reports whether it is neither
// delivered, cancelled nor dead.
func (m *Machine) TaskUse(namespace, id string) (bytes int, pending bool) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	t := m.store.FindOwn(namespace, id)
	if !t.Exists() {
		return 0, false
	}
	return t.Counted(), !store.IsTombstone(t.State())
}

// queuesAtOnce is the largest number of queues that are read under one hold of the machine's lock.
const queuesAtOnce = 200

// QueueSizes yields the size at nowMs of each queue with a live task, of all namespaces and in no order. Its cost does
// not depend on the number of tasks. The machine may change while the caller ranges over the sizes, so the sequence may
// miss a queue that is made or removed meanwhile.
func (m *Machine) QueueSizes(nowMs int64) iter.Seq[task.QueueSize] {
	return func(yield func(task.QueueSize) bool) {
		for first, more := 0, true; more; first += queuesAtOnce {
			var sizes []task.QueueSize
			sizes, more = m.queueSizes(nowMs, first)
			for _, size := range sizes {
				if !yield(size) {
					return
				}
			}
		}
	}
}

func (m *Machine) queueSizes(nowMs int64, first int) (sizes []task.QueueSize, more bool) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.store.Queues().Sizes(nowMs, first, queuesAtOnce)
}

// Outlook counts the tasks that wait in the wheel. Its cost does not grow with the number of tasks or of queues.
func (m *Machine) Outlook(nowMs int64) *fsmpb.Outlook {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.store.Outlook(nowMs)
}

// DueWithin returns the numbers of tasks that come due within each of the spans of an fsmpb.Outlook.
func (m *Machine) DueWithin(nowMs int64) []uint64 {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.store.DueWithin(nowMs)
}
