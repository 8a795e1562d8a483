package fsm

import (
	"slices"
	"strings"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
)

// How much one page looks at, and how much payload it copies and one more task's, so that it holds no lock for long.
const (
	listWork  = 4096    // tasks
	listBytes = 1 << 20 // of payloads
)

// List returns a page of the tasks in the slots [q.Slot, end), slot by slot, by id within one. Slots without a task in
// the wanted states are not looked at. A page may be short, or
// empty, and still have more after it.
func (m *Machine) List(q *fsmpb.ListQuery, end uint32) *fsmpb.ListPage {
	m.mu.RLock()
	defer m.mu.RUnlock()
	page := &fsmpb.ListPage{}
	after, looked, copied := q.AfterId, 0, 0
	for slot := q.Slot; slot < end; slot++ {
		if looked >= listWork {
			page.More, page.Slot = true, slot
			return page
		}
		if !m.slots.mayHold(slot, q.States) {
			after = ""
			looked++
			continue
		}
		looked += m.index.SlotLen(slot)
		if m.listSlot(slot, after, q, page, &copied) {
			return page
		}
		after = ""
	}
	return page
}

// listSlot adds a slot's tasks to the page; true if the page is full, its cursor set. It counts the bytes copied.
func (m *Machine) listSlot(slot uint32, after string, q *fsmpb.ListQuery, page *fsmpb.ListPage, copied *int) bool {
	type found struct {
		id string
		h  handle
	}
	var tasks []found
	for h := range m.index.Each(slot) {
		r := m.tasks.Read(h)
		namespace, id := m.idOf(r)
		if namespace == task.CanonicalNamespace(q.Namespace) && id > after && strings.HasPrefix(id, q.Prefix) && m.matches(r, q) {
			tasks = append(tasks, found{id, h})
		}
	}
	slices.SortFunc(tasks, func(a, b found) int { return strings.Compare(a.id, b.id) })
	for _, t := range tasks {
		if uint32(len(page.Tasks)) >= q.Limit || *copied >= listBytes {
			page.More, page.Slot, page.AfterId = true, slot, after
			return true
		}
		task := m.view(t.h, q.IncludePayload)
		page.Tasks = append(page.Tasks, task)
		*copied += len(task.Spec.Payload)
		after = t.id
	}
	return false
}

// matches tells whether a task passes the filters other than those on its id.
func (m *Machine) matches(r *record, q *fsmpb.ListQuery) bool {
	if len(q.States) > 0 && !slices.Contains(q.States, fsmpb.State(r.state)) {
		return false
	}
	if q.DueBeforeMs != 0 && m.fireAtOf(r) >= q.DueBeforeMs {
		return false
	}
	if q.Queue == "" && len(q.Labels) == 0 {
		return true
	}
	if q.Queue != "" && m.queueOf(r).name != q.Queue {
		return false
	}
	c := readCold(m.blobs.Get(r.cold))
	extra := m.extraOf(&c)
	for _, want := range q.Labels {
		if !slices.ContainsFunc(extra.Labels, func(l *fsmpb.Label) bool {
			return l.Name == want.Name && l.Value == want.Value
		}) {
			return false
		}
	}
	return true
}
