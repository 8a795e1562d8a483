package slab

import (
	"iter"
	"unsafe"
)

// slots is the number of slots of an [Index]: a slot number is below it.
const slots = 4096

// Index finds handles by (slot, hash), where slots are numbers below 4096. Each slot has a small table of its own,
// made at its first use. A table that grows or shrinks therefore delays no other table, and a slot can be walked by
// itself.
//
// Index stores handles and 32 bits of each hash, but no ids. Two ids may share a hash, so the caller compares them.
// The caller must seed the hashes per process, or ids could be chosen to collide.
type Index struct {
	tables [slots]*table // nil: never used
	used   int           // tables that are not nil
	cells  int           // of all tables
}

// NewIndex returns an empty index.
func NewIndex() *Index { return new(Index) }

// Probe begins a search for the handles that may have been inserted with this slot and hash.
func (x *Index) Probe(slot uint32, hash uint64) Probe {
	t := x.tables[slot]
	if t == nil || len(t.cells) == 0 {
		return Probe{}
	}
	f := fragmentOf(hash)
	return Probe{cells: t.cells, at: t.home(f), fragment: f}
}

// Fetch reads the cell at which a search would begin and returns a value without meaning. No decision depends on the
// value, so the processor can wait for many of them at once.
func (x *Index) Fetch(slot uint32, hash uint64) uint64 {
	t := x.tables[slot]
	if t == nil || len(t.cells) == 0 {
		return 0
	}
	return uint64(t.cells[t.home(fragmentOf(hash))])
}

// Insert adds a handle. The handle must not be 0, nor be there already under the same slot and hash.
func (x *Index) Insert(slot uint32, hash uint64, h uint32) {
	if h == 0 {
		panic("slab: handle 0 is indexed")
	}
	t := x.tables[slot]
	if t == nil {
		t = &table{start: startCells(slot)}
		x.tables[slot] = t
		x.used++
	}
	before := len(t.cells)
	t.insert(newCell(fragmentOf(hash), h))
	x.cells += len(t.cells) - before
}

// Delete removes a handle. It panics if the handle is not there under this slot and hash.
func (x *Index) Delete(slot uint32, hash uint64, h uint32) {
	t := x.tables[slot]
	if t == nil || t.live == 0 {
		panic(notIndexed)
	}
	before := len(t.cells)
	t.remove(newCell(fragmentOf(hash), h))
	x.cells += len(t.cells) - before
}

// SlotLen returns the number of handles of one slot.
func (x *Index) SlotLen(slot uint32) int {
	if t := x.tables[slot]; t != nil {
		return t.live
	}
	return 0
}

// Each yields the handles of one slot in no particular order. The index must not change meanwhile.
func (x *Index) Each(slot uint32) iter.Seq[uint32] {
	return func(yield func(uint32) bool) {
		t := x.tables[slot]
		if t == nil {
			return
		}
		for _, c := range t.cells {
			if c != 0 && !yield(c.handle()) {
				return
			}
		}
	}
}

// Bytes returns the bytes that the index holds, free cells included.
func (x *Index) Bytes() int64 {
	return int64(unsafe.Sizeof(*x)) + int64(x.used)*int64(unsafe.Sizeof(table{})) +
		int64(x.cells)*int64(unsafe.Sizeof(cell(0)))
}

// Probe is a search under way. It is valid until the index changes.
type Probe struct {
	cells    []cell
	at       int
	fragment uint32
}

// Next returns the next handle whose hash matches in the 32 bits that are kept, and 0 if there is none left.
func (p *Probe) Next() uint32 {
	if len(p.cells) == 0 {
		return 0
	}
	for {
		c := p.cells[p.at]
		if c == 0 {
			return 0 // and again at further calls
		}
		p.at = follow(p.cells, p.at)
		if c.fragment() == p.fragment {
			return c.handle()
		}
	}
}
