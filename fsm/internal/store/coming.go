package store

import (
	"errors"
	"fmt"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/internal/slots"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/wheel"
)

// coming is the copy of a move into this shard. A copy is a task of a slot that is coming. Copies are found by id, lie
// in the wheel and are part of the state hash. No command, list or count sees them: see rest and queue.copies.
type coming struct {
	move         uint64
	tasks        uint64 // number of copies
	sum          uint64 // sum of contentDigest over all copies
	keepsNumbers bool   // copies keep their numbers in the wheel, because the shard has no tasks of its own

	states  byState // the part of copies in the store's counts
	pending *dues   // the part of copies in the store's pending tasks
}

func (c *coming) message() *fsmpb.Coming {
	if c == nil {
		return nil
	}
	return &fsmpb.Coming{Move: c.move, Tasks: c.tasks, Sum: c.sum, KeepsNumbers: c.keepsNumbers}
}

func (c *coming) count() int {
	if c == nil {
		return 0
	}
	n := 0
	for _, tasks := range c.states {
		n += tasks
	}
	return n
}

// counted returns the numbers of tasks by state without the copies.
func (s *Store) counted() byState {
	counts := s.counts
	if s.Moves.coming != nil {
		for state, n := range s.Moves.coming.states {
			counts[state] = max(0, counts[state]-n)
		}
	}
	return counts
}

// Moves are the moves of slots into this shard and out of it. See Header.Slots for the parts that the slots play.
type Moves struct {
	s      *Store
	coming *coming             // nil: no slot holds copied tasks
	idle   map[uint32][]handle // by slot: see rest; may have stale handles
	watch  *Watch              // nil: no move reads the changes
}

func newMoves(s *Store) Moves { return Moves{s: s, idle: map[uint32][]handle{}} }

// Coming returns the move that copies tasks into this shard, and 0 if there is none.
func (ms *Moves) Coming() (move uint64) {
	if ms.coming != nil {
		return ms.coming.move
	}
	return 0
}

// Copied returns the number of copies and the sum of the hashes of their content.
func (ms *Moves) Copied() (tasks, sum uint64) { return ms.coming.tasks, ms.coming.sum }

// Expect begins a move into slots that hold no task. No other move into this shard may be under way. fresh says that
// the shard has owned no slot. Copies then keep their numbers in the wheel, and need no progress record for their
// revision. The shard itself gives no such number before it opens a slot.
func (ms *Moves) Expect(ranges []slots.Range, state slots.State, fresh bool) {
	for _, r := range ranges {
		ms.s.Slots.Set(r, state)
	}
	ms.coming = &coming{move: state.Move, keepsNumbers: fresh && ms.s.mem.tasks.Len() == 0, pending: &dues{}}
}

// Arrived ends a move after the opening or the dropping of its last copy: copies are tasks from now on.
func (ms *Moves) Arrived() {
	ms.coming = nil
	for _, q := range ms.s.mem.queues.values {
		if q != nil {
			q.copies, q.space.copies = nil, spaceCounts{}
		}
	}
}

// DropCopy removes the copy of a task that the source no longer has.
func (ms *Moves) DropCopy(namespace, id string) {
	if h := ms.s.find(namespace, id); h != 0 && ms.isComing(task.Slot(namespace, id)) {
		ms.dropCopy(h)
	}
}

func (ms *Moves) isComing(slot uint32) bool {
	at := ms.s.Slots.At(slot)
	return ms.coming != nil && at.Move == ms.coming.move && at.Phase == fsmpb.SlotPhase_SLOT_PHASE_COMING
}

// Copy adds a copy of a task, a marshalled fsmpb.SnapshotTask, or replaces the task's copy by a later one.
func (ms *Moves) Copy(data []byte) error {
	m := fsmpb.SnapshotTaskFromVTPool()
	defer m.ReturnToVTPool()
	if err := m.UnmarshalVTUnsafe(data); err != nil {
		return fmt.Errorf("task cannot be read: %w", err)
	}
	if err := ms.checkCopy(m); err != nil {
		return err
	}
	if t := ms.s.Find(m.Task.Namespace, m.Task.Id); t.Exists() {
		if t.Revision() > m.Task.Revision {
			return nil
		}
		ms.dropCopy(t.h)
	}
	return ms.addCopy(m)
}

// maxNumber is the highest number that a copy may have, so that the shard can count on for ever.
const maxNumber = wheel.MaxSeq / 2

func (ms *Moves) checkCopy(m *fsmpb.SnapshotTask) error {
	t := m.GetTask()
	switch slot := task.Slot(t.GetNamespace(), t.GetId()); {
	case t.GetId() == "":
		return errors.New("task has no id")
	case !ms.isComing(slot):
		return fmt.Errorf("task %q: slot %d is not coming", t.Id, slot)
	case max(t.Revision, t.Fence, t.Occurrence, m.WheelSeq) > maxNumber:
		return fmt.Errorf("task %q has a number out of range", t.Id)
	}
	return nil
}

func (ms *Moves) addCopy(m *fsmpb.SnapshotTask) error {
	s, t := ms.s, m.Task
	s.Number = max(s.Number, t.Revision, t.Fence, t.Occurrence, m.WheelSeq)
	wakeMessage(m)
	if m.InWheel && !ms.coming.keepsNumbers {
		s.Number++
		m.WheelSeq = s.Number
	}
	to := restoring{s: s}
	h, err := to.task(m)
	if err != nil {
		return err
	}
	if r := s.mem.tasks.Read(h); r.progress != 0 {
		s.mem.progress.Write(r.progress).order = m.Order
		if (Task{s, h}).isUnlisted() {
			ms.addIdle(h)
		}
	}
	s.land(h)
	ms.countCopy(h, 1)
	ms.coming.tasks++
	ms.coming.sum += s.mem.contentDigest(h)
	return nil
}

func (ms *Moves) dropCopy(h handle) {
	ms.coming.tasks--
	ms.coming.sum -= ms.s.mem.contentDigest(h)
	ms.countCopy(h, -1)
	ms.s.Change(Task{ms.s, h}, Edit.Drop)
}

// countCopy adds n, 1 or -1, to the counts of copies.
func (ms *Moves) countCopy(h handle, n int) {
	s := ms.s
	r := s.mem.tasks.Read(h)
	ms.coming.states[r.state] += n
	if r.waitsForAttempt() {
		ms.coming.pending.add(r.Due(), n)
	}
	q := s.mem.queueOf(r)
	if q.copies == nil {
		q.copies = &queueCounts{}
	}
	q.copies.add(&s.mem, r, n)
	q.space.copies.add(r.state, s.mem.heldBytes(r), n)
}

// Inherit records the origins of the occurrences of moved tasks, and counts on above their numbers.
func (ms *Moves) Inherit(number uint64, origins []*fsmpb.Inherited) {
	s := ms.s
	s.Number = max(s.Number, min(number, maxNumber))
	for _, o := range origins {
		s.Origins.add(slots.Range{First: o.FirstSlot, End: o.EndSlot}, o.Last, o.Origin)
	}
	s.Origins.sort()
}
