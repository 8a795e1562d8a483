package store

import (
	"slices"

	"github.com/belfryhq/belfry/fsm/task"
)

// checkLabels compares the index of labels with the labels that a full walk found.
func (a *auditor) checkLabels() {
	walked := 0
	for k, tasks := range a.labels {
		walked += len(tasks)
		a.checkLabel(k, tasks)
	}
	kept, bytes := 0, int64(0)
	for slot := range uint32(task.Slots) {
		kept += a.s.labels.rare.SlotLen(slot)
	}
	for _, p := range a.s.labels.postings {
		kept += p.n
		bytes += p.bytes()
	}
	if kept != walked {
		a.breach("the index of labels has %d entries, and the tasks have %d labels", kept, walked)
	}
	if bytes != a.s.labels.bytes {
		a.breach("the postings count %d bytes, and have %d", a.s.labels.bytes, bytes)
	}
}

// checkLabel compares the tasks of a label with the index.
func (a *auditor) checkLabel(k labelKey, tasks []handle) {
	if n := a.s.labels.len(k); n != len(tasks) {
		a.breach("label %x has %d tasks in the index, and %d tasks have it", k, n, len(tasks))
	}
	var got foundTasks
	indexed := a.s.labels.tasks(k)
	for slot := range uint32(task.Slots) {
		for h := range indexed.Each(slot) {
			got = append(got, uint64(slot)<<32|uint64(h))
		}
	}
	slices.Sort(got)
	if want := newFoundTasks(tasks, a.s.labels.slotOf); !slices.Equal(got, want) {
		a.breach("label %x has tasks %x in the index, and tasks %x have it", k, got, want)
	}
}

// walkDue looks for a task in the index of due times.
func (a *auditor) walkDue(id string, slot uint32, h handle) {
	for _, k := range dueKeysOf(Task{a.s, h}) {
		if k == 0 {
			continue
		}
		a.due++
		if !a.s.dues.places.Has(k.place(slot, h)) {
			a.breach("%q is not in the index of due times at %x", id, k)
		}
	}
}

// checkDueIndex compares the size of the index of due times with the tasks that a full walk found.
func (a *auditor) checkDueIndex() {
	if n := a.s.dues.places.Len(); n != a.due {
		a.breach("the index of due times has %d places, and the tasks have %d", n, a.due)
	}
}
