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
	if s.coming != nil {
		for state, n := range s.coming.states {
			counts[state] = max(0, counts[state]-n)
		}
	}
	return counts
}

// Coming returns the move that copies tasks into this shard, and 0 if there is none.
func (s *Store) Coming() (move uint64) {
	if s.coming != nil {
		return s.coming.move
	}
	return 0
}

// Copied returns the number of copies and the sum of the hashes of their content.
func (s *Store) Copied() (tasks, sum uint64) { return s.coming.tasks, s.coming.sum }

// Expect begins a move into slots that hold no task. No other move into this shard may be under way. fresh says that
// the shard has owned no slot. Copies then keep their numbers in the wheel, and need no progress record for their
// revision. The shard itself gives no such number before it opens a slot.
func (s *Store) Expect(ranges []slots.Range, state slots.State, fresh bool) {
	for _, r := range ranges {
		s.Slots.Set(r, state)
	}
	s.coming = &coming{move: state.Move, keepsNumbers: fresh && s.tasks.Len() == 0, pending: &dues{}}
}

// Arrived ends a move after the opening or the dropping of its last copy: copies are tasks from now on.
func (s *Store) Arrived() {
	s.coming = nil
	for _, q := range s.queues.values {
		if q != nil {
			q.copies, q.space.copies = nil, spaceCounts{}
		}
	}
}

// DropCopy removes the copy of a task that the source no longer has.
func (s *Store) DropCopy(namespace, id string) {
	at := s.PlaceOf(namespace, id)
	if h := s.findAt(at, namespace, id); h != 0 && s.isComing(at.slot) {
		s.dropCopy(h)
	}
}

func (s *Store) isComing(slot uint32) bool {
	at := s.Slots.At(slot)
	return s.coming != nil && at.Move == s.coming.move && at.Phase == fsmpb.SlotPhase_SLOT_PHASE_COMING
}

// Copy adds a copy of a task, a marshalled fsmpb.SnapshotTask, or replaces the task's copy by a later one.
func (s *Store) Copy(data []byte) error {
	m := fsmpb.SnapshotTaskFromVTPool()
	defer m.ReturnToVTPool()
	if err := m.UnmarshalVTUnsafe(data); err != nil {
		return fmt.Errorf("task cannot be read: %w", err)
	}
	if err := s.checkCopy(m); err != nil {
		return err
	}
	if h := s.find(m.Task.Namespace, m.Task.Id); h != 0 {
		if (Task{s, h}).Revision() > m.Task.Revision {
			return nil
		}
		s.dropCopy(h)
	}
	return s.addCopy(m)
}

// maxNumber is the highest number that a copy may have, so that the shard can count on for ever.
const maxNumber = wheel.MaxSeq / 2

func (s *Store) checkCopy(m *fsmpb.SnapshotTask) error {
	t := m.GetTask()
	switch slot := task.Slot(t.GetNamespace(), t.GetId()); {
	case t.GetId() == "":
		return errors.New("task has no id")
	case !s.isComing(slot):
		return fmt.Errorf("task %q: slot %d is not coming", t.Id, slot)
	case max(t.Revision, t.Fence, t.Occurrence, m.WheelSeq) > maxNumber:
		return fmt.Errorf("task %q has a number out of range", t.Id)
	}
	return nil
}

func (s *Store) addCopy(m *fsmpb.SnapshotTask) error {
	t := m.Task
	s.Number = max(s.Number, t.Revision, t.Fence, t.Occurrence, m.WheelSeq)
	wakeMessage(m)
	if m.InWheel && !s.coming.keepsNumbers {
		s.Number++
		m.WheelSeq = s.Number
	}
	to := restoring{s: s}
	h, err := to.task(m)
	if err != nil {
		return err
	}
	if r := s.tasks.Read(h); r.progress != 0 {
		s.progress.Write(r.progress).order = m.Order
		if (Task{s, h}).isUnlisted() {
			s.addIdle(h)
		}
	}
	s.land(h)
	s.countCopy(h, 1)
	s.coming.tasks++
	s.coming.sum += s.contentDigest(h)
	return nil
}

func (s *Store) dropCopy(h handle) {
	s.coming.tasks--
	s.coming.sum -= s.contentDigest(h)
	s.countCopy(h, -1)
	s.Change(Task{s, h}, Edit.Drop)
}

// countCopy adds n, 1 or -1, to the counts of copies.
func (s *Store) countCopy(h handle, n int) {
	r := s.tasks.Read(h)
	s.coming.states[r.state] += n
	if r.waitsForAttempt() {
		s.coming.pending.add(r.Due(), n)
	}
	q := s.queueOf(r)
	if q.copies == nil {
		q.copies = &queueCounts{}
	}
	q.copies.add(s, r, n)
	q.space.copies.add(r.state, s.heldBytes(r), n)
}

// Inherit records the origins of the occurrences of moved tasks, and counts on above their numbers.
func (s *Store) Inherit(number uint64, origins []*fsmpb.Inherited) {
	s.Number = max(s.Number, min(number, maxNumber))
	for _, o := range origins {
		s.Origins.add(slots.Range{First: o.FirstSlot, End: o.EndSlot}, o.Last, o.Origin)
	}
	s.Origins.sort()
}
