package store

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/internal/slots"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/wheel"
)

// Moves are the moves of slots into this shard and out of it. See Header.Slots for the parts that the slots play.
type Moves struct {
	s      *Store
	coming *coming             // nil: no slot holds copied tasks
	idle   map[uint32][]handle // by slot: see rest; may have stale handles
	watch  *Watch              // nil: no move reads the changes
}

func newMoves(s *Store) Moves { return Moves{s: s, idle: map[uint32][]handle{}} }

// A task in a slot that is not open rests:
//
//	in the wheel     stays there; when its instant comes, it is parked until the slot opens
//	ready            is in no list of a lane
//	firing           the same. Its attempt goes on, and the settle waits for the slot
//	a tombstone      of a copy is in no list; that of a sealed slot leaves the list when its turn to be dropped comes
//
// idle has the tasks that are parked or in no list, so that opening a slot does not touch the other tasks.

// HasTasks reports whether the store holds tasks in a range of slots.
func (ms *Moves) HasTasks(r slots.Range) bool {
	for slot := r.First; slot < r.End; slot++ {
		if ms.s.index.SlotLen(slot) > 0 {
			return true
		}
	}
	return false
}

// Seal closes slots for all changes.
func (ms *Moves) Seal(ranges []slots.Range, state slots.State) {
	for _, r := range ranges {
		ms.s.Slots.Set(r, state)
	}
	for _, h := range ms.listedIn(ranges) {
		Edit{Task{ms.s, h}}.rest()
	}
}

// listedIn returns the ready and firing tasks in ranges of slots. It walks the slots or the lanes, whatever is less.
func (ms *Moves) listedIn(ranges []slots.Range) []handle {
	s := ms.s
	begun := []fsmpb.State{fsmpb.State_STATE_READY, fsmpb.State_STATE_FIRING}
	var walk []uint32
	tasks := 0
	for _, r := range ranges {
		for slot := r.First; slot < r.End; slot++ {
			if s.bySlot.mayHold(slot, begun) {
				walk = append(walk, slot)
				tasks += s.index.SlotLen(slot)
			}
		}
	}
	if tasks > s.counts[fsmpb.State_STATE_READY]+s.counts[fsmpb.State_STATE_FIRING] {
		return s.Lanes.listedIn(ranges)
	}
	var listed []handle
	for _, slot := range walk {
		for h := range s.index.Each(slot) {
			if s.mem.isListed(h) {
				listed = append(listed, h)
			}
		}
	}
	return listed
}

// listedIn returns the ready and firing tasks in ranges of slots.
func (ls *Lanes) listedIn(ranges []slots.Range) []handle {
	var listed []handle
	for _, l := range ls.values {
		if l == nil {
			continue
		}
		for h := range l.listed(ls.s.mem.links()) {
			if slots.Have(ranges, ls.s.mem.slotOf(ls.s.mem.tasks.Read(h))) {
				listed = append(listed, h)
			}
		}
	}
	return listed
}

// isUnlisted reports whether a task in this state is in no list although the state names one.
func (p *progress) isUnlisted(state fsmpb.State) bool {
	switch state {
	case fsmpb.State_STATE_READY, fsmpb.State_STATE_FIRING:
		return p.lane == 0
	case fsmpb.State_STATE_DELIVERED, fsmpb.State_STATE_CANCELLED:
		return p.size == 0
	}
	return false
}

func (t Task) isUnlisted() bool { return t.read().isUnlisted(t.State()) }

// rest takes a task of a slot that is not open out of its list. The task keeps its order. Neither the state hash nor a
// count changes.
func (e Edit) rest() {
	order := e.read().order
	e.LeaveList()
	e.write().order = order
	e.s.Moves.addIdle(e.h)
}

// park keeps a task, just popped from the wheel, out of it if the task's slot is not open. It reports whether it did.
func (ms *Moves) park(h handle) bool {
	s := ms.s
	slot := s.mem.slotOf(s.mem.tasks.Read(h))
	if s.Slots.IsOpen(slot) {
		return false
	}
	id := s.mem.idDigest(s.mem.tasks.Read(h))
	s.sum -= s.mem.digest(h, id)
	r := s.mem.tasks.Write(h)
	r.waits, r.parked = false, true
	s.sum += s.mem.digest(h, id)
	ms.addIdle(h)
	return true
}

func (ms *Moves) addIdle(h handle) {
	slot := Task{ms.s, h}.slot()
	ms.idle[slot] = append(ms.idle[slot], h)
}

// Open opens slots of a move that are in a phase, whole slots one after another, until at least limit tasks have
// returned to the wheel or to lists. Their number is at most limit and one slot's tasks. No lease that runs ends before
// leaseUntilMs, since the settle of its task may have been waiting for the slot. Open reports whether slots are left.
func (ms *Moves) Open(move uint64, phase fsmpb.SlotPhase, limit int, leaseUntilMs int64) (more bool) {
	returned, limit := 0, max(limit, 1)
	table := &ms.s.Slots
	for _, r := range table.Of(move, phase) {
		open := table.At(r.First)
		open.Phase = fsmpb.SlotPhase_SLOT_PHASE_OPEN
		if phase == fsmpb.SlotPhase_SLOT_PHASE_SEALED {
			open.Epoch-- // the target has never owned the slots
		}
		slot := r.First
		for ; slot < r.End && returned < limit; slot++ {
			returned += ms.wake(slot, leaseUntilMs)
		}
		if slot > r.First {
			table.Set(slots.Range{First: r.First, End: slot}, open)
		}
		if slot < r.End {
			return true
		}
	}
	return false
}

// wake returns the resting tasks of a slot to the wheel and to their lists, and their number. Tasks of one list keep
// their order among each other, and go behind the tasks that are in the list.
func (ms *Moves) wake(slot uint32, leaseUntilMs int64) int {
	resting := ms.resting(slot)
	delete(ms.idle, slot)
	for _, h := range resting {
		ms.s.Number++
		ms.s.Change(Task{ms.s, h}, func(e Edit) { e.wake(leaseUntilMs) })
	}
	return len(resting)
}

// resting returns the parked and unlisted tasks of a slot, in the order of their lists.
func (ms *Moves) resting(slot uint32) []handle {
	s, all := ms.s, slices.Clone(ms.idle[slot])
	slices.Sort(all)
	all = slices.DeleteFunc(slices.Compact(all), func(h handle) bool {
		r := s.mem.tasks.Read(h) // of the task, or of another one, or free
		return r.state == 0 || !r.parked && !(Task{s, h}).isUnlisted() || s.mem.slotOf(r) != slot
	})
	slices.SortFunc(all, func(a, b handle) int {
		x, y := Task{s, a}, Task{s, b}
		if c := cmp.Compare(x.read().order, y.read().order); c != 0 {
			return c
		}
		return compareNames(x, y)
	})
	return all
}

// wake returns the task to the wheel, under its former number, and to the list that its state names. A lease that would
// end before leaseUntilMs ends then, under the present number.
func (e Edit) wake(leaseUntilMs int64) {
	s := e.s
	if r := s.mem.tasks.Write(e.h); r.parked {
		s.wheel.Insert(e.h, r.Due(), r.Seq())
		r.parked, r.waits = false, true
	}
	if !e.isUnlisted() {
		return
	}
	switch e.State() {
	case fsmpb.State_STATE_READY:
		e.Wait(e.OpenLane())
	case fsmpb.State_STATE_FIRING:
		l, _ := e.OpenLane()
		e.Fire(l)
		if e.WaitsUntilMs() < leaseUntilMs {
			e.WaitUntil(leaseUntilMs)
		}
	default:
		e.joinTombstones(int64(s.Number))
	}
}

// wakeMessage does to a message what wake does to a task.
func wakeMessage(m *fsmpb.SnapshotTask) {
	m.InWheel, m.Parked, m.Idle, m.Isolated = m.InWheel || m.Parked, false, false, false
}

// DropTasks drops the tasks in ranges of slots, whole slots one after another, until at least limit tasks are dropped.
// It reports whether tasks are left.
func (ms *Moves) DropTasks(ranges []slots.Range, limit int) (more bool) {
	dropped, limit := 0, max(limit, 1)
	for _, r := range ranges {
		for slot := r.First; slot < r.End; slot++ {
			n := ms.s.index.SlotLen(slot)
			if n > 0 && dropped >= limit {
				return true
			}
			ms.dropSlot(slot)
			dropped += n
		}
	}
	return false
}

func (ms *Moves) dropSlot(slot uint32) {
	s := ms.s
	for _, h := range slices.Collect(s.index.Each(slot)) {
		if ms.coming != nil && ms.coming.move == s.Slots.At(slot).Move {
			ms.dropCopy(h)
		} else {
			s.Change(Task{s, h}, Edit.Drop)
		}
	}
	delete(ms.idle, slot)
}

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
	if t := ms.s.Find(namespace, id); t.Exists() && ms.isComing(task.Slot(namespace, id)) {
		ms.dropCopy(t.h)
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
	s.land(h, s.mem.identityOf(s.mem.slotOf(s.mem.tasks.Read(h)), h))
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
