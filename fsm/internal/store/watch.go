package store

import (
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/internal/slots"
	"github.com/belfryhq/belfry/fsm/task"
)

// Watch reads the tasks of slots that move away, and follows their changes. It is in memory only, and no part of the
// state: only the leader of a move's source has one.
//
// Copy reads slot after slot while the store changes. Changes then reads the tasks that have changed since Copy passed
// their slots. So no read needs a frozen view of all tasks. Once both have read all, the copies are those of the source
// at that moment.
type Watch struct {
	ranges  []slots.Range
	passed  [task.Slots]bool // Copy has begun the slot: its changes are followed
	watched [task.Slots]bool
	next    uint32   // slot that Copy reads next
	rest    []handle // of the slot that Copy has begun; tasks may have gone meanwhile
	dirty   map[handle]struct{}
	gone    map[taskName]struct{}

	tasks uint64 // in the slots that Copy has begun
	sum   uint64 // sum of contentDigest over these tasks

	message taskMessage // reused
}

type taskName struct{ namespace, id string }

// Watch begins to follow the changes in ranges of slots, in place of an earlier Watch.
func (ms *Moves) Watch(ranges []slots.Range) *Watch {
	w := &Watch{ranges: ranges, dirty: map[handle]struct{}{}, gone: map[taskName]struct{}{}}
	for _, r := range ranges {
		for slot := r.First; slot < r.End; slot++ {
			w.watched[slot] = true
		}
	}
	ms.watch = w
	return w
}

// Unwatch ends w.
func (ms *Moves) Unwatch(w *Watch) {
	if ms.watch == w {
		ms.watch = nil
	}
}

// Follows reports whether w follows the changes of this store.
func (ms *Moves) Follows(w *Watch) bool { return ms.watch == w }

// lift takes a task that is about to change out of the sum.
func (w *Watch) lift(s *Store, h handle) {
	if w.passed[s.mem.slotOf(s.mem.tasks.Read(h))] {
		w.tasks--
		w.sum -= s.mem.contentDigest(h)
	}
}

// land adds a changed or new task to the sum and to the changes.
func (w *Watch) land(s *Store, h handle) {
	if w.passed[s.mem.slotOf(s.mem.tasks.Read(h))] {
		w.tasks++
		w.sum += s.mem.contentDigest(h)
		w.dirty[h] = struct{}{}
	}
}

// drop notes that a task, already out of the sum, is about to be dropped.
func (w *Watch) drop(t Task) {
	if w.passed[t.s.mem.slotOf(t.record())] {
		delete(w.dirty, t.h)
		namespace, id := t.ID()
		w.gone[taskName{namespace, id}] = struct{}{}
	}
}

// Ranges returns the slots that w watches.
func (w *Watch) Ranges() []slots.Range { return w.ranges }

// Sum returns the number of tasks and the sum of the hashes of their content. After Copy has read all, these are of all
// tasks that w watches.
func (w *Watch) Sum() (tasks, sum uint64) { return w.tasks, w.sum }

// Left returns the number of changes that Changes has yet to read.
func (w *Watch) Left() int { return len(w.dirty) + len(w.gone) }

// copyStep is the largest number of tasks that one Copy or Changes encodes, so that it holds no lock for long.
const copyStep = 512

// Copy returns the next tasks, as ImportTasks has them: at most copyStep, and of limit bytes and one task at most. done
// is set if no further task is left.
func (w *Watch) Copy(s *Store, limit int) (tasks [][]byte, done bool) {
	bytes := 0
	for len(tasks) < copyStep && bytes < limit {
		if len(w.rest) == 0 && !w.begin(s) {
			return tasks, true
		}
		h := w.rest[len(w.rest)-1]
		w.rest = w.rest[:len(w.rest)-1]
		if data := w.encode(s, h); data != nil {
			tasks = append(tasks, data)
			bytes += len(data)
		}
	}
	return tasks, false
}

// begin begins the next slot that holds a task. It reports whether there is one.
func (w *Watch) begin(s *Store) bool {
	for ; w.next < task.Slots; w.next++ {
		if !w.watched[w.next] {
			continue
		}
		w.passed[w.next] = true
		if s.index.SlotLen(w.next) == 0 {
			continue
		}
		for h := range s.index.Each(w.next) {
			w.rest = append(w.rest, h)
			w.tasks++
			w.sum += s.mem.contentDigest(h)
		}
		w.next++
		return true
	}
	return false
}

// encode returns a task as ImportTasks has it, or nil if the task is gone or in a slot that does not move.
func (w *Watch) encode(s *Store, h handle) []byte {
	r := s.mem.tasks.Read(h)
	if r.state == 0 || !w.passed[s.mem.slotOf(r)] {
		return nil
	}
	m := w.message.of(&s.mem, r).GetTask()
	wakeMessage(m)
	return mustMarshal(m)
}

// Changes returns the next changes: at most copyStep, and of about limit bytes at most. gone are tasks that the target
// must drop before it takes the others.
func (w *Watch) Changes(s *Store, limit int) (tasks [][]byte, gone []*fsmpb.TaskName) {
	bytes := 0
	for name := range w.gone {
		if len(gone) == copyStep || bytes >= limit {
			return nil, gone
		}
		delete(w.gone, name)
		if !s.Find(name.namespace, name.id).Exists() {
			gone = append(gone, &fsmpb.TaskName{Namespace: name.namespace, Id: name.id})
			bytes += len(name.namespace) + len(name.id)
		}
	}
	for h := range w.dirty {
		if len(tasks)+len(gone) >= copyStep || bytes >= limit {
			break
		}
		delete(w.dirty, h)
		if data := w.encode(s, h); data != nil {
			tasks = append(tasks, data)
			bytes += len(data)
		}
	}
	return tasks, gone
}
