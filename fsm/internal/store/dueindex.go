package store

import (
	"fmt"
	"math"

	"github.com/google/btree"
)

// dueIndex finds the tasks that are due in a range of time. It is derived from the tasks: no snapshot, hash or log
// entry has it. It goes by the due time that the caller gave, in any state of the task, and by the next instant of a
// schedule.
//
// Why not the wheel? A task that waits for its next attempt or for an opening lies there under another instant, and one
// that was moved to a later time lies where it was before.
type dueIndex struct {
	places dueTree
}

// dueTree is a *btree.BTreeG[duePlace]; see rankTree.
type dueTree interface {
	Len() int
	Has(duePlace) bool
	ReplaceOrInsert(duePlace) (duePlace, bool)
	Delete(duePlace) (duePlace, bool)
	AscendGreaterOrEqual(duePlace, btree.ItemIteratorG[duePlace])
}

// duePlace is the place of a task in the index: the Unix second of its due time in the upper half, its handle in the
// lower one. 0 is no place.
type duePlace uint64

// dueDegree is the degree of the B-tree, whose nodes have up to 127 places. A larger one moves more memory with each
// task, a smaller one has more levels.
const dueDegree = 64

// dueBytes is the memory that a task takes in the index, measured with due times in random order: 12.2 bytes with ten
// million tasks. Due times that rise from task to task leave nodes half full, and take twice the memory.
const dueBytes = 12

func newDueIndex() dueIndex {
	return dueIndex{btree.NewG(dueDegree, func(a, b duePlace) bool { return a < b })}
}

// duePlaceOf returns the place of a task in the index.
func (s *Store) duePlaceOf(h handle) duePlace {
	return duePlace(dueSecond(s.fireAtOf(s.tasks.Read(h))))<<32 | duePlace(h)
}

// move takes a task from one place to another, each of which may be none. It panics if the task is not at from.
func (x dueIndex) move(from, to duePlace) {
	if from == to {
		return
	}
	if from != 0 {
		if _, ok := x.places.Delete(from); !ok {
			panic(fmt.Sprintf("fsm: no task is due at %x", uint64(from)))
		}
	}
	if to != 0 {
		x.places.ReplaceOrInsert(to)
	}
}

// between returns the tasks of the seconds from fromMs up to, but not including, toMs, and perhaps more of the first
// and the last second. A zero toMs is no bound. ok is false if there are more than most.
func (x dueIndex) between(fromMs, toMs int64, most int) (tasks []handle, ok bool) {
	first, last := duePlace(dueSecond(fromMs))<<32, duePlace(math.MaxUint64)
	if toMs != 0 {
		last = duePlace(dueSecond(toMs-1))<<32 | math.MaxUint32
	}
	ok = true
	x.places.AscendGreaterOrEqual(first, func(p duePlace) bool {
		if p > last {
			return false
		}
		ok = len(tasks) < most
		tasks = append(tasks, handle(p))
		return ok
	})
	return tasks, ok
}

// Bytes returns about the bytes that the index holds.
func (x dueIndex) Bytes() int64 { return int64(x.places.Len()) * dueBytes }
