package store

import (
	"bytes"

	"github.com/cespare/xxhash/v2"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/internal/slab"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/wheel"
)

// handle addresses a record in the task slab. It differs between replicas and never leaves this package.
type handle = uint32

const inlineIDBytes = 24

// record is the hot part of a task: one cache line. The zero record is a free one.
type record struct {
	wheel.Node
	cold     slab.Ref // the content of the task: see cold
	keys     slab.Ref // the remembered keys except the first: see remembered; 0: none
	progress uint32   // the progress record; 0: the task is scheduled, and its revision is its number in the wheel
	state    uint8    // fsmpb.State
	idLen    uint8    // length of the inline id in bytes; 0: the cold blob has the id
	waits    bool     // the task is in the wheel, or was popped just now
	parked   bool     // the task came due in a slot that is not open, and returns to the wheel; never with waits
	id       [inlineIDBytes]byte
}

func (r *record) is(s fsmpb.State) bool { return r.state == uint8(s) }

// waitsForAttempt reports whether the task waits for an attempt. Other tasks in the wheel wait for the end of a lease
// or of a tombstone, and schedules for their next occurrence.
func (r *record) waitsForAttempt() bool {
	return r.is(fsmpb.State_STATE_SCHEDULED) || r.is(fsmpb.State_STATE_RETRYING)
}

// progress is the second record of a task. A task has it from the moment it comes due, and before if its revision is
// not its place in the wheel: see Rebuild.
type progress struct {
	fireAt   int64
	revision uint64
	fence    uint64 // of the current or last grant; 0 before the first
	order    int64  // place in its list; ascends from head to tail
	lane     uint32 // 0: in none
	next     handle // next in the lane's ready or firing list, or among the tombstones
	prev     handle
	attempts uint32   // begun in the current occurrence
	history  slab.Ref // 0: no attempt has ended, and there is no last error
	outcome  uint8    // fsmpb.CancelOutcome; STOPPED while firing: no further attempt is granted
	leased   bool     // a consumer has the task; only while firing
	priority uint8    // of a ranked ready task; otherwise 0
	retried  bool     // of a ready task: it waits among those with an ended attempt
	size     uint32   // bytes of a tombstone, counted against the bound; 0: not counted
	isolated bool     // lane is of an isolated path
	_        [3]byte
}

// IsTombstone reports whether a task in this state has ended.
func IsTombstone(s fsmpb.State) bool {
	return s == fsmpb.State_STATE_DELIVERED || s == fsmpb.State_STATE_DEAD || s == fsmpb.State_STATE_CANCELLED
}

// nodes lets the wheel reach its nodes inside the records.
type nodes struct{ tasks *slab.Pages[record] }

func (n nodes) Read(h wheel.Handle) *wheel.Node  { return &n.tasks.Read(h).Node }
func (n nodes) Write(h wheel.Handle) *wheel.Node { return &n.tasks.Write(h).Node }

// memory holds the parts of all tasks, and decodes them: see One task in the documentation of the package. It knows
// neither the lists nor the wheel nor the counts.
type memory struct {
	tasks    *slab.Pages[record]
	progress *slab.Pages[progress]
	blobs    *slab.Arena
	shared
	scratch []byte                 // for encoding; reused
	changed cold                   // for rewriteCold; reused
	past    [historyKept + 1]ended // for EndAttempt; reused
}

func newMemory() memory {
	return memory{
		tasks: slab.NewPages[record](), progress: slab.NewPages[progress](), blobs: slab.NewArena(), shared: newShared(),
	}
}

func (m *memory) links() listLinks { return listLinks{m.tasks, m.progress} }

// The methods of taskSource.

func (m *memory) blob(ref slab.Ref) []byte     { return m.blobs.Get(ref) }
func (m *memory) progressAt(n uint32) progress { return *m.progress.Read(n) }
func (m *memory) sharedValues() *shared        { return &m.shared }

func (m *memory) hasID(r *record, namespace, id string) bool {
	if r.idLen != 0 {
		return isDefaultNamespace(namespace) && string(r.id[:r.idLen]) == id
	}
	return coldIs(m.blobs.Get(r.cold), task.CanonicalNamespace(namespace), id)
}

// idOf returns a task's namespace and id.
func (m *memory) idOf(r *record) (namespace, id string) {
	if r.idLen != 0 {
		return task.DefaultNamespace, string(r.id[:r.idLen])
	}
	c := readCold(m.blobs.Get(r.cold))
	return c.namespace, c.id
}

// slotOf returns the slot of a task's id.
func (m *memory) slotOf(r *record) uint32 {
	if r.idLen == 0 {
		return task.Slot(m.idOf(r))
	}
	var key [len(task.DefaultNamespace) + 1 + inlineIDBytes]byte
	n := copy(key[:], task.DefaultNamespace) + 1
	id := r.id[:r.idLen]
	if at := bytes.IndexByte(id, '@'); at >= 0 {
		id = id[:at]
	}
	n += copy(key[n:], id)
	return uint32(xxhash.Sum64(key[:n]) % task.Slots)
}

// queueOf returns the queue of a task.
func (m *memory) queueOf(r *record) *queue { return m.queues.at(coldQueue(m.blobs.Get(r.cold))) }

// fireAtOf returns a task's due time, even if the task now waits for another instant.
func (m *memory) fireAtOf(r *record) int64 {
	if r.progress == 0 {
		return r.Due()
	}
	return m.progress.Read(r.progress).fireAt
}

// revisionOf returns the number of a task's last change.
func (m *memory) revisionOf(r *record) uint64 {
	if r.progress == 0 {
		return r.Seq()
	}
	return m.progress.Read(r.progress).revision
}

// progressOf returns a task's progress for writing; a scheduled task gets one.
func (m *memory) progressOf(h handle) *progress {
	r := m.tasks.Read(h)
	if r.progress == 0 {
		m.tasks.Write(h).progress = m.progress.Alloc()
		m.progress.Write(r.progress).fireAt = r.Due()
	}
	return m.progress.Write(r.progress)
}

func (m *memory) dropProgress(h handle) {
	r := m.tasks.Write(h)
	if r.progress == 0 {
		return
	}
	m.blobs.Free(m.progress.Read(r.progress).history)
	m.progress.Free(r.progress)
	r.progress = 0
}

// headOf decodes the head of a task's cold blob, which is all that the keys need.
func (m *memory) headOf(r *record) coldHead {
	h, _ := readHead(m.blobs.Get(r.cold))
	return h
}

// keysOf appends the keys of a task to keys.
func (m *memory) keysOf(keys []remembered, r *record) []remembered {
	c := m.headOf(r)
	return readKeys(c.appendFirst(keys, m.fireAtOf(r)), m.blobs.Get(r.keys), &c)
}

// hasPast reports whether an attempt of the current occurrence has ended.
func (m *memory) hasPast(p *progress) bool {
	b := m.blob(p.history)
	return len(b) > 0 && b[0]&^historyOwnError != 0
}

func (m *memory) putHistory(p *progress, h *history) {
	m.blobs.Free(p.history)
	m.scratch = h.appendTo(m.scratch[:0])
	p.history = m.blobs.Put(m.scratch)
}

// heldBytes returns the bytes that a task holds: see queueAndBytes.
func (m *memory) heldBytes(r *record) int {
	_, held := m.queueAndBytes(r)
	return held
}

// queueAndBytes returns a task's queue, and the bytes that the task holds. The values that it shares with other tasks
// (target, labels, and so on) count as if they were its own: otherwise distinct ones would count for nothing, and the
// count would depend on the order in which tasks came.
func (m *memory) queueAndBytes(r *record) (*queue, int) {
	blob := m.blobs.Get(r.cold)
	queue, target, manner := coldShared(blob)
	held := task.RecordBytes + len(blob) + len(m.blob(r.keys))
	if target != 0 {
		held += len(m.targets.at(target).key)
	}
	if manner != 0 {
		held += len(m.manners.at(manner).key)
	}
	if r.progress != 0 {
		held += len(m.blob(m.progress.Read(r.progress).history))
	}
	return m.queues.at(queue), held
}

// isListed reports whether a task is among the ready or firing tasks of a lane.
func (m *memory) isListed(h handle) bool {
	r := m.tasks.Read(h)
	return r.progress != 0 && m.progress.Read(r.progress).lane != 0 && !r.is(fsmpb.State_STATE_RETRYING)
}

// waitsForAttempt reports whether a task in the wheel waits for an attempt.
func (m *memory) waitsForAttempt(h wheel.Handle) bool { return m.tasks.Read(h).waitsForAttempt() }
