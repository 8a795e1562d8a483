package store

import (
	"iter"
	"slices"
	"strings"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/internal/slots"
	"github.com/belfryhq/belfry/fsm/task"
)

// These bound the work of one page, so that it holds no lock for long. The payloads may exceed listBytes by one
// task's.
const (
	listWork  = 4096    // tasks
	listBytes = 1 << 20 // of payloads
)

// ListedSlots returns the slots of the tasks that a page may have: those from q.Slot up to, but not including, end, and
// in due order those that the query names.
func ListedSlots(q *fsmpb.ListQuery, end uint32) []slots.Range {
	if q.Order != fsmpb.ListOrder_LIST_ORDER_DUE {
		return []slots.Range{{First: q.Slot, End: end}}
	}
	if len(q.Slots) == 0 {
		return []slots.Range{{End: end}}
	}
	var named []slots.Range
	for _, r := range q.Slots {
		named = append(named, slots.Range{First: r.GetFirst(), End: min(r.GetEnd(), end)})
	}
	return named
}

// List returns a page of the tasks in ListedSlots: slot by slot, by id within a slot, unless the query wants due order.
// It looks at the tasks with the query's rarest label, or at all tasks if the query names no label, and skips slots
// without a task in the wanted states. A page may be short or empty although more tasks follow.
func (s *Store) List(q *fsmpb.ListQuery, end uint32) *fsmpb.ListPage {
	l := lister{s: s, q: q, page: &fsmpb.ListPage{}}
	if q.Order == fsmpb.ListOrder_LIST_ORDER_DUE {
		l.listDue(ListedSlots(q, end))
	} else {
		l.listSlots(end)
	}
	return l.page
}

// lister makes one page of a list.
type lister struct {
	s      *Store
	q      *fsmpb.ListQuery
	page   *fsmpb.ListPage
	looked int // tasks
	copied int // bytes of payloads
}

func (l *lister) listSlots(end uint32) {
	tasks, after := l.candidates(), l.q.AfterId
	for slot := l.q.Slot; slot < end; slot, after = slot+1, "" {
		n := tasks.SlotLen(slot)
		switch {
		case n == 0:
			continue
		case l.looked >= listWork:
			l.page.More, l.page.Slot = true, slot
			return
		case !l.s.Slots.HoldsOwn(slot) || !l.s.bySlot.mayHold(slot, l.q.States):
			l.looked++
			continue
		}
		l.looked += n
		if l.listSlot(slot, tasks, after) {
			return
		}
	}
}

// candidates returns the tasks with the rarest label of the query, or those of its range of due times if they are fewer
// and not many, or all tasks. Many tasks of a range are found as fast by looking at all tasks.
func (l *lister) candidates() candidates {
	labelled, most := candidates(l.s.index), l.s.mem.tasks.Len()
	if len(l.q.Labels) > 0 {
		k, n := l.s.labels.rarest(l.q)
		labelled, most = l.s.labels.tasks(k), n
	}
	if l.q.DueAfterMs != 0 || l.q.DueBeforeMs != 0 {
		if tasks, ok := l.s.dues.between(l.q.DueAfterMs, l.q.DueBeforeMs, min(most, manyTasks)); ok {
			return newFoundTasks(tasks, l.s.labels.slotOf)
		}
	}
	return labelled
}

// listSlot adds a slot's candidates behind an id to the page. It reports whether the page is full, and then sets the
// cursor.
func (l *lister) listSlot(slot uint32, from candidates, after string) bool {
	for _, t := range l.matching(slot, from, after) {
		if uint32(len(l.page.Tasks)) >= l.q.Limit || l.copied >= listBytes {
			l.page.More, l.page.Slot, l.page.AfterId = true, slot, after
			return true
		}
		task := t.View(l.q.IncludePayload)
		l.page.Tasks = append(l.page.Tasks, task)
		l.copied += len(task.Spec.Payload)
		after = t.id
	}
	return false
}

// namedTask is a task with its id.
type namedTask struct {
	id string
	Task
}

// matching returns the tasks of a slot that the query finds behind an id, by id.
func (l *lister) matching(slot uint32, from candidates, after string) []namedTask {
	var tasks []namedTask
	wanted := task.CanonicalNamespace(l.q.Namespace)
	for h := range from.Each(slot) {
		t := Task{l.s, h}
		namespace, id := t.ID()
		if namespace == wanted && id > after && strings.HasPrefix(id, l.q.Prefix) && matches(t, l.q) {
			tasks = append(tasks, namedTask{id, t})
		}
	}
	slices.SortFunc(tasks, func(a, b namedTask) int { return strings.Compare(a.id, b.id) })
	return tasks
}

// matches reports whether a task passes all filters of a query but those on its id.
func matches(t Task, q *fsmpb.ListQuery) bool {
	state := t.State()
	if len(q.States) > 0 && !slices.Contains(q.States, state) ||
		len(q.States) == 0 && state == fsmpb.State_STATE_REPEATING {
		return false
	}
	if q.DueBeforeMs != 0 && t.FireAtMs() >= q.DueBeforeMs || q.DueAfterMs != 0 && t.FireAtMs() < q.DueAfterMs {
		return false
	}
	if q.Queue == "" && len(q.Labels) == 0 {
		return true
	}
	if q.Queue != "" && t.s.mem.queueOf(t.record()).name != q.Queue {
		return false
	}
	c := t.cold()
	spec := t.s.mem.extraOf(&c).Spec
	for _, want := range q.Labels {
		if !slices.ContainsFunc(spec.Labels, func(l *fsmpb.Label) bool { return equalLabels(l, want) }) {
			return false
		}
	}
	return true
}

// candidates are tasks by slot, among them all that a query can find.
type candidates interface {
	SlotLen(slot uint32) int
	Each(slot uint32) iter.Seq[handle]
}

// foundTasks are handles with the slots of their tasks in the upper half, ascending.
type foundTasks []uint64

func newFoundTasks(tasks []handle, slotOf func(handle) uint32) foundTasks {
	found := make(foundTasks, len(tasks))
	for i, h := range tasks {
		found[i] = uint64(slotOf(h))<<32 | uint64(h)
	}
	slices.Sort(found)
	return found
}

func (f foundTasks) of(slot uint32) foundTasks {
	first, _ := slices.BinarySearch(f, uint64(slot)<<32)
	n, _ := slices.BinarySearch(f[first:], uint64(slot+1)<<32)
	return f[first:][:n]
}

// SlotLen returns the number of handles of one slot.
func (f foundTasks) SlotLen(slot uint32) int { return len(f.of(slot)) }

// Each yields the handles of one slot.
func (f foundTasks) Each(slot uint32) iter.Seq[handle] {
	return func(yield func(handle) bool) {
		for _, found := range f.of(slot) {
			if !yield(handle(found)) {
				return
			}
		}
	}
}
