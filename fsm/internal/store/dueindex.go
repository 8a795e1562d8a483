package store

import (
	"fmt"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
)

// dueIndex finds the tasks that are due in a range of time, and walks tasks by their next instants. It is derived from
// the tasks: no snapshot, hash or log entry has it.
//
// Every task has a place by its due time, the one that its caller gave. A task whose next instant is another one has a
// second place by that instant. Classes keep apart the tasks that a walk wants from the others, so that a walk to the
// next tasks does not step over millions of ended ones.
//
// Why not the wheel? Its far slots are not sorted, and one of them can hold millions of tasks. A task that waits for
// its next attempt lies there under that instant and not under its due time, and one that was moved to a later time
// lies where it was before.
type dueIndex struct{ places places }

// dueClass is a kind of place in the index.
type dueClass uint64

const (
	dueNext  dueClass = 1 + iota // by due time: tasks whose due time is their next instant
	dueEnded                     // by due time: delivered and cancelled tasks
	dueRest                      // by due time: all records that have a second place, which is in one of the next classes
	dueMoved                     // by next instant: retrying tasks, and scheduled ones that wait for a later instant
	dueDead                      // by the instant of death: dead letters
	dueRuns                      // by next instant: schedules
)

// dueKey orders the places of the index: the class in the highest 3 bits, an instant in Unix milliseconds in the next
// 49 bits, the slot of the task in the lowest 12 bits. 0 is the key of no place.
type dueKey uint64

const (
	slotBits = 12 // of task.Slots
	dueBits  = 49
	maxDueMs = 1<<dueBits - 1
)

func newDueKey(class dueClass, ms int64) dueKey {
	return dueKey(class)<<(slotBits+dueBits) | dueKey(clampDue(ms))<<slotBits
}

// clampDue brings an instant into the range of the index.
func clampDue(ms int64) int64 { return min(max(ms, 0), maxDueMs) }

func (k dueKey) class() dueClass { return dueClass(k >> (slotBits + dueBits)) }

func (k dueKey) dueMs() int64 { return int64(k>>slotBits) & maxDueMs }
func (k dueKey) slot() uint32 { return uint32(k % task.Slots) }

// position returns the key without its class. It orders the tasks of a list.
func (k dueKey) position() dueKey { return k & (1<<(slotBits+dueBits) - 1) }

func (k dueKey) in(c dueClass) dueKey { return k.position() | dueKey(c)<<(slotBits+dueBits) }

// place returns the place of a task with this key in a slot.
func (k dueKey) place(slot uint32, h handle) duePlace {
	k |= dueKey(slot)
	return duePlace{uint32(k >> 32), uint32(k), h}
}

// duePlace is a place in the index: the two halves of its dueKey, which would be aligned to eight bytes, and its task.
type duePlace struct {
	high, low uint32
	task      handle
}

func (p duePlace) key() dueKey { return dueKey(p.high)<<32 | dueKey(p.low) }

func (p duePlace) before(other duePlace) bool {
	if p.key() != other.key() {
		return p.key() < other.key()
	}
	return p.task < other.task
}

// dueKeys are the keys of a task's places, without its slot. The second may be none.
type dueKeys [2]dueKey

// dueKeysOf returns the keys of a task's places.
func dueKeysOf(t Task) dueKeys {
	r := t.record()
	due := t.FireAtMs()
	class, next := dueMoved, r.Due()
	switch t.State() {
	case fsmpb.State_STATE_SCHEDULED:
		if next == due {
			return dueKeys{newDueKey(dueNext, due)}
		}
	case fsmpb.State_STATE_READY, fsmpb.State_STATE_FIRING:
		return dueKeys{newDueKey(dueNext, due)}
	case fsmpb.State_STATE_DELIVERED, fsmpb.State_STATE_CANCELLED:
		return dueKeys{newDueKey(dueEnded, due)}
	case fsmpb.State_STATE_DEAD:
		class, next = dueDead, deathMs(t)
	case fsmpb.State_STATE_REPEATING:
		class = dueRuns
		if !r.waits && !r.parked {
			next = maxDueMs // none is known: the schedule comes last
		}
	}
	return dueKeys{newDueKey(dueRest, due), newDueKey(class, next)}
}

// deathMs returns the instant at which a dead letter died: the end of its last attempt, or its expiry.
func deathMs(t Task) int64 {
	if last, ok := t.lastEnded(); ok {
		return last.end
	}
	return t.FireAtMs() + t.ExpiresAfterMs()
}

// add gives a task its places.
func (x *dueIndex) add(k dueKeys, slot uint32, h handle) {
	for _, k := range k {
		if k != 0 {
			x.places.add(k.place(slot, h))
		}
	}
}

// remove takes the places of a task away. It panics if the task has another place.
func (x *dueIndex) remove(k dueKeys, slot uint32, h handle) {
	for _, k := range k {
		if k != 0 && !x.places.remove(k.place(slot, h)) {
			panic(fmt.Sprintf("fsm: task %d is not at %x in the index of due times", h, k))
		}
	}
}

// between returns the tasks that are due from fromMs up to, but not including, toMs. A zero bound is none. ok is false
// if there are more than most.
func (x *dueIndex) between(fromMs, toMs int64, most int) (tasks []handle, ok bool) {
	for _, class := range []dueClass{dueNext, dueEnded, dueRest} {
		end := newDueKey(class+1, 0)
		if toMs != 0 && toMs <= maxDueMs {
			end = newDueKey(class, toMs)
		}
		run := x.run(newDueKey(class, fromMs), end)
		for p, ok := run.next(); ok; p, ok = run.next() {
			if len(tasks) == most {
				return tasks, false
			}
			tasks = append(tasks, p.task)
		}
	}
	return tasks, true
}

// dueRun reads places in their order. It is valid until the index changes.
type dueRun struct {
	ahead []duePlace
	rest  [][]duePlace
	end   dueKey // the first key behind the run
}

// run returns the places with keys from one up to, but not including, another.
func (x *dueIndex) run(from, end dueKey) dueRun {
	ahead, rest := x.places.from(from.place(0, 0))
	return dueRun{ahead, rest, end}
}

// peek returns the first place that has not been taken. ok is false at the end of the run.
func (r *dueRun) peek() (p duePlace, ok bool) {
	if len(r.ahead) == 0 && len(r.rest) > 0 {
		r.ahead, r.rest = r.rest[0], r.rest[1:]
	}
	if len(r.ahead) == 0 || r.ahead[0].key() >= r.end {
		return duePlace{}, false
	}
	return r.ahead[0], true
}

// next takes the first place.
func (r *dueRun) next() (p duePlace, ok bool) {
	if p, ok = r.peek(); ok {
		r.ahead = r.ahead[1:]
	}
	return p, ok
}
