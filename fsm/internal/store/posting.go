package store

import (
	"fmt"
	"slices"

	"github.com/belfryhq/belfry/fsm/task"
)

// posting holds the tasks of a label that many tasks have.
type posting struct {
	n      int
	tasks  []handle     // ascending; nil if bySlot is not
	bySlot *slotHandles // nil: n is at most manyTasks
}

// slotHandles holds handles by the slots of their tasks, ascending within a slot.
type slotHandles [task.Slots][]handle

const (
	fewestFreed      = 16 // places of a slice that may become shorter
	handleBytes      = 4
	sliceHeaderBytes = 24
	slotHandlesBytes = task.Slots * sliceHeaderBytes
	// postingBytes are those of a posting and of its entry in the map, which is two thirds full.
	postingBytes = 40 + 26
)

// add adds a task, and returns the bytes by which the posting has grown.
func (p *posting) add(h handle, slotOf func(handle) uint32) (grown int64) {
	if p.bySlot == nil && p.n == manyTasks {
		grown = p.divide(slotOf)
	}
	p.n++
	return grown + insertHandle(p.holder(h, slotOf), h)
}

// remove removes a task, and returns the bytes by which the posting has grown, at most 0.
func (p *posting) remove(h handle, slotOf func(handle) uint32) (grown int64) {
	grown = removeHandle(p.holder(h, slotOf), h)
	p.n--
	if p.bySlot != nil && p.n <= manyTasks/4 {
		grown += p.unite()
	}
	return grown
}

// holder returns the slice that a task belongs to.
func (p *posting) holder(h handle, slotOf func(handle) uint32) *[]handle {
	if p.bySlot == nil {
		return &p.tasks
	}
	return &p.bySlot[slotOf(h)]
}

// divide distributes the tasks among their slots.
func (p *posting) divide(slotOf func(handle) uint32) (grown int64) {
	tasks := p.tasks
	p.tasks, p.bySlot = nil, &slotHandles{}
	grown = slotHandlesBytes - bytesOf(tasks)
	for _, h := range tasks {
		grown += insertHandle(p.holder(h, slotOf), h)
	}
	return grown
}

// unite puts the tasks of all slots into one slice.
func (p *posting) unite() (grown int64) {
	before := p.bytes()
	p.tasks = make([]handle, 0, p.n)
	for _, tasks := range p.bySlot {
		p.tasks = append(p.tasks, tasks...)
	}
	slices.Sort(p.tasks)
	p.bySlot = nil
	return p.bytes() - before
}

// bytes returns the bytes that the posting holds.
func (p *posting) bytes() int64 {
	n := postingBytes + bytesOf(p.tasks)
	if p.bySlot != nil {
		n += slotHandlesBytes
		for _, tasks := range p.bySlot {
			n += bytesOf(tasks)
		}
	}
	return n
}

func bytesOf(tasks []handle) int64 { return int64(cap(tasks)) * handleBytes }

// insertHandle inserts a handle into an ascending slice and returns the bytes by which the slice has grown.
func insertHandle(tasks *[]handle, h handle) (grown int64) {
	before := bytesOf(*tasks)
	at, there := slices.BinarySearch(*tasks, h)
	if there {
		panic(fmt.Sprintf("fsm: task %d has a label twice", h))
	}
	*tasks = slices.Insert(*tasks, at, h)
	return bytesOf(*tasks) - before
}

// removeHandle removes a handle from an ascending slice and returns the bytes by which the slice has grown. A slice
// of which three quarters are free becomes half as long.
func removeHandle(tasks *[]handle, h handle) (grown int64) {
	before := bytesOf(*tasks)
	at, there := slices.BinarySearch(*tasks, h)
	if !there {
		panic(fmt.Sprintf("fsm: task %d loses a label that it does not have", h))
	}
	*tasks = slices.Delete(*tasks, at, at+1)
	if n := len(*tasks); n == 0 || cap(*tasks) >= fewestFreed && n <= cap(*tasks)/4 {
		*tasks = append(make([]handle, 0, 2*n), *tasks...)
	}
	return bytesOf(*tasks) - before
}
