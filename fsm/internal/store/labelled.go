package store

import (
	"iter"
	"slices"

	"github.com/belfryhq/belfry/fsm/fsmpb"
)

// candidates are tasks by slot, among them all that a query can find.
type candidates interface {
	SlotLen(slot uint32) int
	Each(slot uint32) iter.Seq[handle]
}

// rarest returns the rarest label of a query, which must name one, and the number of its tasks.
func (x *labelIndex) rarest(q *fsmpb.ListQuery) (rarest labelKey, fewest int) {
	fewest = -1
	for _, k := range x.appendKeys(nil, q.Namespace, q.Labels) {
		if n := x.len(k); fewest < 0 || n < fewest {
			rarest, fewest = k, n
		}
	}
	return rarest, fewest
}

// fewTasks returns the tasks with the rarest label of a query, in no order. ok is false if there are many, or if the
// query names no label.
func (x *labelIndex) fewTasks(q *fsmpb.ListQuery) (tasks []handle, ok bool) {
	if len(q.Labels) == 0 {
		return nil, false
	}
	k, n := x.rarest(q)
	switch p := x.postings[k]; {
	case n > manyTasks:
		return nil, false
	case p == nil:
		return x.few(k), true
	case p.bySlot == nil:
		return p.tasks, true
	default:
		return slices.Concat(p.bySlot[:]...), true
	}
}

// tasks returns the tasks of a label by slot. The result is valid until the index changes.
func (x *labelIndex) tasks(k labelKey) candidates {
	p := x.postings[k]
	switch {
	case p == nil:
		return newFoundTasks(x.few(k), x.slotOf)
	case p.bySlot == nil:
		return newFoundTasks(p.tasks, x.slotOf)
	}
	return p.bySlot
}

// SlotLen returns the number of handles of one slot.
func (t *slotHandles) SlotLen(slot uint32) int { return len(t[slot]) }

// Each yields the handles of one slot.
func (t *slotHandles) Each(slot uint32) iter.Seq[handle] { return slices.Values(t[slot]) }

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
