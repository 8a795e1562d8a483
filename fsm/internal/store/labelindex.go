package store

import (
	"fmt"
	"hash/maphash"
	"iter"
	"slices"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/internal/slab"
	"github.com/belfryhq/belfry/fsm/task"
)

// labelIndex finds the tasks with a label. It is derived from the tasks: no snapshot, hash or log entry has it. It
// keeps handles by how many tasks have the label:
//
//	up to rareTasks    in a hash table of cells                    8 bytes a task, and free cells
//	up to manyTasks    in one sorted slice, a posting              4 bytes a task, and free places
//	more               in one sorted slice for each slot           the same, and 96 KiB
//
// A label goes back to the former kind when a good part of its tasks is gone, so that a label near a border does not
// change its kind with each task.
//
// Why no compressed bitmaps? A common label is read slot by slot, and handles tell nothing about slots. A bitmap for
// each slot would have less than one bit set in a thousand, and takes no less than a slice.
type labelIndex struct {
	rare     *slab.Index
	postings map[labelKey]*posting
	bytes    int64 // of the postings
	slotOf   func(handle) uint32
	seed     maphash.Seed // a caller cannot choose labels that collide
}

const (
	rareTasks = 8
	// A page by a label with one slice computes the slots of all its tasks, in 0.1 to 0.2 µs each. A label with one slice
	// for each slot takes 96 KiB, which is 12 bytes a task at this number.
	manyTasks = 2 * listWork
)

func newLabelIndex(slotOf func(handle) uint32) labelIndex {
	return labelIndex{
		rare: slab.NewIndex(), postings: map[labelKey]*posting{}, slotOf: slotOf, seed: maphash.MakeSeed(),
	}
}

// labelKey is a part of the hash of a namespace and a label. Two labels may have the same key and are then one label
// to the index, so a reader compares the labels of the tasks found.
type labelKey uint64

// labelKeyBits are the bits that slab.Index tells apart: twelve of a slot, and 32 of a hash.
const labelKeyBits = 44

func (k labelKey) slot() uint32 { return uint32(k % task.Slots) }
func (k labelKey) hash() uint64 { return uint64(k/task.Slots) << 32 }

// key returns the key of a label in a namespace, whose name is written out.
func (x *labelIndex) key(namespace string, l *fsmpb.Label) labelKey {
	var h maphash.Hash
	h.SetSeed(x.seed)
	for _, part := range [...]string{namespace, l.Name, l.Value} {
		_, _ = h.WriteString(part) // never fails
		_ = h.WriteByte(0)
	}
	return labelKey(h.Sum64() >> (64 - labelKeyBits))
}

// appendKeys appends the keys of labels, each once.
func (x *labelIndex) appendKeys(keys []labelKey, namespace string, labels []*fsmpb.Label) []labelKey {
	namespace = task.CanonicalNamespace(namespace)
	for _, l := range labels {
		if k := x.key(namespace, l); !slices.Contains(keys, k) {
			keys = append(keys, k)
		}
	}
	return keys
}

// addTask adds a task to its labels. The record and the blob must be complete.
func (x *labelIndex) addTask(h handle, namespace string, labels []*fsmpb.Label) {
	var keys [task.MaxLabels]labelKey
	for _, k := range x.appendKeys(keys[:0], namespace, labels) {
		x.add(k, h)
	}
}

// removeTask removes a task from its labels.
func (x *labelIndex) removeTask(h handle, namespace string, labels []*fsmpb.Label) {
	var keys [task.MaxLabels]labelKey
	for _, k := range x.appendKeys(keys[:0], namespace, labels) {
		x.remove(k, h)
	}
}

// add adds a task to a label, which must not have it.
func (x *labelIndex) add(k labelKey, h handle) {
	if p := x.postings[k]; p != nil {
		x.bytes += p.add(h, x.slotOf)
		return
	}
	x.rare.Insert(k.slot(), k.hash(), h)
	if x.countFew(k) > rareTasks {
		x.promote(k)
	}
}

// remove removes a task from a label. It panics if the label does not have the task.
func (x *labelIndex) remove(k labelKey, h handle) {
	p := x.postings[k]
	if p == nil {
		x.rare.Delete(k.slot(), k.hash(), h)
		return
	}
	x.bytes += p.remove(h, x.slotOf)
	if p.n <= rareTasks/2 {
		x.demote(k, p)
	}
}

// few returns the tasks of a label that has no posting.
func (x *labelIndex) few(k labelKey) []handle {
	var tasks []handle
	probe := x.rare.Probe(k.slot(), k.hash())
	for h := probe.Next(); h != 0; h = probe.Next() {
		tasks = append(tasks, h)
	}
	return tasks
}

// countFew returns the number of tasks of a label that has no posting.
func (x *labelIndex) countFew(k labelKey) (n int) {
	probe := x.rare.Probe(k.slot(), k.hash())
	for probe.Next() != 0 {
		n++
	}
	return n
}

// promote gives a label a posting.
func (x *labelIndex) promote(k labelKey) {
	p := &posting{}
	x.bytes += postingBytes
	for _, h := range x.few(k) {
		x.rare.Delete(k.slot(), k.hash(), h)
		x.bytes += p.add(h, x.slotOf)
	}
	x.postings[k] = p
}

// demote takes a label's posting away.
func (x *labelIndex) demote(k labelKey, p *posting) {
	delete(x.postings, k)
	x.bytes -= p.bytes()
	for _, h := range p.tasks {
		x.rare.Insert(k.slot(), k.hash(), h)
	}
}

// len returns the number of tasks of a label.
func (x *labelIndex) len(k labelKey) int {
	if p := x.postings[k]; p != nil {
		return p.n
	}
	return x.countFew(k)
}

// Bytes returns the bytes that the index holds, free places included.
func (x *labelIndex) Bytes() int64 { return x.rare.Bytes() + x.bytes }

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

// SlotLen returns the number of handles of one slot.
func (t *slotHandles) SlotLen(slot uint32) int { return len(t[slot]) }

// Each yields the handles of one slot.
func (t *slotHandles) Each(slot uint32) iter.Seq[handle] { return slices.Values(t[slot]) }
