package store

import (
	"cmp"
	"iter"
	"math"
	"slices"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/internal/slots"
)

// listDue fills a page of a list in due order. It walks the index of due times from the cursor on, or sorts the tasks
// of the query's rarest label if they are not many.
//
// Why no cursor with a number of the shard, as the wheel orders equal instants? The slot and the id stay when a task
// moves to another shard, and all shards can be merged by them.
func (l *lister) listDue(within []slots.Range) {
	if !l.mayFind() {
		return
	}
	page, walk := l.page, l.walk()
	for cell := walk.next(); len(cell) > 0; cell = walk.next() {
		at, after := cell[0].key().position(), ""
		if at == duePosition(l.q) {
			after = l.q.AfterId
		}
		if l.looked >= listWork {
			page.More, page.Slot, page.AfterDueMs = true, at.slot(), at.dueMs()
			return
		}
		l.looked += len(cell)
		if !l.s.Slots.HoldsOwn(at.slot()) || !slots.Have(within, at.slot()) {
			continue
		}
		full := l.listSlot(at.slot(), cell, after)
		for len(page.DueMs) < len(page.Tasks) {
			page.DueMs = append(page.DueMs, at.dueMs())
		}
		if full {
			page.AfterDueMs = at.dueMs()
			return
		}
	}
}

// duePosition returns the position of the query's cursor.
func duePosition(q *fsmpb.ListQuery) dueKey { return newDueKey(0, q.AfterDueMs) | dueKey(q.Slot) }

// mayFind reports whether the queue of the query, or the store if it names none, holds a task in one of its states.
func (l *lister) mayFind() bool {
	q, held := l.q, &l.s.counts
	if q.Queue != "" {
		queue := l.s.mem.queues.Find(keyOfQueue(q.Namespace, q.Queue))
		if queue == nil {
			return false
		}
		held = &queue.tasks
	}
	return len(q.States) == 0 || slices.ContainsFunc(q.States, func(state fsmpb.State) bool {
		return state >= 0 && int(state) < len(held) && held[state] > 0
	})
}

// dueCell has the places of one instant and one slot.
type dueCell []duePlace

// SlotLen returns the number of tasks of the cell, whose slot it must be.
func (c dueCell) SlotLen(uint32) int { return len(c) }

// Each yields the tasks of the cell, whose slot it must be.
func (c dueCell) Each(uint32) iter.Seq[handle] {
	return func(yield func(handle) bool) {
		for _, p := range c {
			if !yield(p.task) {
				return
			}
		}
	}
}

// noPosition is behind all positions.
const noPosition = dueKey(math.MaxUint64)

// dueWalk merges runs of places by their positions.
type dueWalk struct {
	runs []dueRun
	cell dueCell
}

// walk returns a walk from the query's cursor on.
func (l *lister) walk() *dueWalk {
	s, q := l.s, l.q
	classes := dueClassesOf(q.States)
	from, w := duePosition(q), &dueWalk{}
	if few, ok := s.labels.fewTasks(q); ok {
		run := dueRun{end: noPosition}
		for _, h := range few {
			slot := s.mem.slotOf(s.mem.tasks.Read(h))
			for _, k := range dueKeysOf(Task{s, h}) {
				if k != 0 && slices.Contains(classes, k.class()) && k.position()|dueKey(slot) >= from {
					run.ahead = append(run.ahead, k.place(slot, h))
				}
			}
		}
		slices.SortFunc(run.ahead, func(a, b duePlace) int { return cmp.Compare(a.key().position(), b.key().position()) })
		w.runs = []dueRun{run}
		return w
	}
	for _, class := range classes {
		first := max(from, l.firstDue(class))
		end := newDueKey(class+1, 0)
		if before := clampDue(q.DueBeforeMs); before > 0 && before < maxDueMs && (class == dueNext || class == dueEnded) {
			end = newDueKey(class, before)
		}
		w.runs = append(w.runs, s.dues.run(first.in(class), end))
	}
	return w
}

// dueClassesOf returns the classes that have the tasks in these states by their next instants. Without states, those
// are all tasks that have not ended.
func dueClassesOf(states []fsmpb.State) []dueClass {
	if len(states) == 0 {
		return []dueClass{dueNext, dueMoved}
	}
	var classes []dueClass
	for _, state := range states {
		switch state {
		case fsmpb.State_STATE_SCHEDULED:
			classes = append(classes, dueNext, dueMoved)
		case fsmpb.State_STATE_RETRYING:
			classes = append(classes, dueMoved)
		case fsmpb.State_STATE_DELIVERED, fsmpb.State_STATE_CANCELLED:
			classes = append(classes, dueEnded)
		case fsmpb.State_STATE_DEAD:
			classes = append(classes, dueDead)
		case fsmpb.State_STATE_REPEATING:
			classes = append(classes, dueRuns)
		default:
			classes = append(classes, dueNext)
		}
	}
	slices.Sort(classes)
	return slices.Compact(classes)
}

// firstDue returns a position before which a class has no task that the query can find.
func (l *lister) firstDue(class dueClass) dueKey {
	switch class {
	case dueNext:
		return newDueKey(0, max(l.q.DueAfterMs, l.firstWaiting()))
	case dueEnded:
		return newDueKey(0, l.q.DueAfterMs)
	}
	return 0
}

// firstWaiting returns an instant before which no task in one of the query's states is due, if such tasks all wait in
// the wheel. It saves a walk over the ready tasks, of which a paused queue may have millions. Tasks that came due in a
// slot that is not open are not in the wheel.
func (l *lister) firstWaiting() int64 {
	for _, state := range l.q.States {
		if state != fsmpb.State_STATE_SCHEDULED && state != fsmpb.State_STATE_RETRYING {
			return 0
		}
	}
	if len(l.q.States) == 0 || !l.s.Slots.AllOpen() {
		return 0
	}
	bound, ok := l.s.wheel.Bound()
	if !ok {
		return math.MaxInt64
	}
	return bound
}

// next returns the cell at the next position, or none at the end. It is valid until the next call.
func (w *dueWalk) next() dueCell {
	at := noPosition
	for i := range w.runs {
		if p, ok := w.runs[i].peek(); ok {
			at = min(at, p.key().position())
		}
	}
	w.cell = w.cell[:0]
	for i := range w.runs {
		for p, ok := w.runs[i].peek(); ok && p.key().position() == at; p, ok = w.runs[i].peek() {
			w.cell = append(w.cell, p)
			w.runs[i].next()
		}
	}
	return w.cell
}
