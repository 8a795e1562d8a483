package store

import (
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
	if q.Order == fsmpb.ListOrder_LIST_ORDER_DUE {
		return s.listDue(q, ListedSlots(q, end))
	}
	page := &fsmpb.ListPage{}
	tasks, after := s.candidates(q), q.AfterId
	looked, copied := 0, 0
	for slot := q.Slot; slot < end; slot, after = slot+1, "" {
		n := tasks.SlotLen(slot)
		switch {
		case n == 0:
			continue
		case looked >= listWork:
			page.More, page.Slot = true, slot
			return page
		case !s.holdsOwn(slot) || !s.bySlot.mayHold(slot, q.States):
			looked++
			continue
		}
		looked += n
		if s.listSlot(slot, tasks, after, q, page, &copied) {
			return page
		}
	}
	return page
}

// holdsOwn reports whether the tasks of a slot are the shard's own, and neither copies nor remains.
func (s *Store) holdsOwn(slot uint32) bool {
	return s.Slots.IsOpen(slot) || s.Slots.At(slot).Phase == fsmpb.SlotPhase_SLOT_PHASE_SEALED
}

// FindOwn is Find for readers. It finds neither the copies of slots that are coming nor the remains of slots that are
// gone.
func (s *Store) FindOwn(namespace, id string) Task {
	at := s.PlaceOf(namespace, id)
	if !s.holdsOwn(at.slot) {
		return Task{}
	}
	return s.FindAt(at, namespace, id)
}

// listSlot adds a slot's candidates to the page and counts the bytes copied. It reports whether the page is full, and
// then sets the cursor.
func (s *Store) listSlot(
	slot uint32, from candidates, after string, q *fsmpb.ListQuery, page *fsmpb.ListPage, copied *int,
) bool {
	for _, t := range s.matching(slot, from, after, q) {
		if uint32(len(page.Tasks)) >= q.Limit || *copied >= listBytes {
			page.More, page.Slot, page.AfterId = true, slot, after
			return true
		}
		task := t.View(q.IncludePayload)
		page.Tasks = append(page.Tasks, task)
		*copied += len(task.Spec.Payload)
		after = t.id
	}
	return false
}

// namedTask is a task with its id.
type namedTask struct {
	id string
	Task
}

// matching returns the tasks of a slot that a query finds behind an id, by id.
func (s *Store) matching(slot uint32, from candidates, after string, q *fsmpb.ListQuery) []namedTask {
	var tasks []namedTask
	wanted := task.CanonicalNamespace(q.Namespace)
	for h := range from.Each(slot) {
		t := Task{s, h}
		namespace, id := t.ID()
		if namespace == wanted && id > after && strings.HasPrefix(id, q.Prefix) && t.matches(q) {
			tasks = append(tasks, namedTask{id, t})
		}
	}
	slices.SortFunc(tasks, func(a, b namedTask) int { return strings.Compare(a.id, b.id) })
	return tasks
}

// matches reports whether the task passes all filters but those on its id.
func (t Task) matches(q *fsmpb.ListQuery) bool {
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
	if q.Queue != "" && t.s.queueOf(t.record()).name != q.Queue {
		return false
	}
	c := t.cold()
	spec := t.s.extraOf(&c).Spec
	for _, want := range q.Labels {
		if !slices.ContainsFunc(spec.Labels, func(l *fsmpb.Label) bool { return equalLabels(l, want) }) {
			return false
		}
	}
	return true
}
