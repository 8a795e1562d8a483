package store

import (
	"hash/maphash"
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
