package store

import (
	"cmp"
	"slices"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/internal/slots"
)

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
	s.sum -= s.mem.digest(h)
	r := s.mem.tasks.Write(h)
	r.waits, r.parked = false, true
	s.sum += s.mem.digest(h)
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
		e.joinTombstones()
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
