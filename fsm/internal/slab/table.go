package slab

import "slices"

const notIndexed = "slab: a handle is removed from an index that does not have it"

// cell is a handle in the low half and 32 bits of its hash in the high half. Zero is an empty cell, as no handle is 0.
type cell uint64

func newCell(fragment, h uint32) cell { return cell(fragment)<<32 | cell(h) }

func (c cell) fragment() uint32 { return uint32(c >> 32) }
func (c cell) handle() uint32   { return uint32(c) }

// fragmentOf returns the bits of a hash that a cell keeps. No other bits place a cell, so tables can be rebuilt
// without the hashes. The low bits are left out because slot numbers are often made of them.
func fragmentOf(hash uint64) uint32 { return uint32(hash >> 32) }

// table is a hash table with open addressing. It probes linearly, and deletion shifts back the cells that follow, so
// there are no tombstones (Knuth, The Art of Computer Programming, volume 3, section 6.4, algorithms L and R).
//
// It grows by half when five sixths full, and shrinks by a third when a third full.
type table struct {
	cells []cell // at least one is empty, unless there are none
	live  int
	start int // the smallest size
	// size is the length that cells was requested with. The allocator gives up to an eighth more, and all of it is
	// used. Growth counts from size, because the rounding would soon bring tables of different starts to the same
	// length.
	size int
}

// startCells returns the smallest size of a slot's table. It differs from slot to slot by up to a half, which is one
// step of growth. Slots fill evenly, and would otherwise all grow within a moment, and all be sparse right after it.
// The number is scrambled (Fibonacci hashing), for the slots of one index may well be every twelfth.
func startCells(slot uint32) int { return 16 + int(slot*0x9e3779b9>>29) }

// home maps a fragment to a cell by multiplying and shifting, for any number of cells (Lemire, Fast Random Integer
// Generation in an Interval, 2019). It keeps the order of fragments, so rebuilding a table writes it in order.
func (t *table) home(fragment uint32) int {
	return int(uint64(fragment) * uint64(len(t.cells)) >> 32)
}

// follow returns the index of the cell after cell i, around the end.
func follow(cells []cell, i int) int {
	if i++; i < len(cells) {
		return i
	}
	return 0
}

func (t *table) insert(c cell) {
	if (t.live+1)*6 > len(t.cells)*5 {
		t.resize(max(t.start, t.size+t.size/2))
	}
	t.place(c)
	t.live++
}

// place writes a cell into the first empty place from its home on.
func (t *table) place(c cell) {
	i := t.home(c.fragment())
	for t.cells[i] != 0 {
		i = follow(t.cells, i)
	}
	t.cells[i] = c
}

// find returns the index of the only cell of a fragment, or -1 if there is none.
func (t *table) find(fragment uint32) int {
	if len(t.cells) == 0 {
		return -1
	}
	for i := t.home(fragment); t.cells[i] != 0; i = follow(t.cells, i) {
		if t.cells[i].fragment() == fragment {
			return i
		}
	}
	return -1
}

func (t *table) remove(c cell) {
	i := t.home(c.fragment())
	for t.cells[i] != c {
		if t.cells[i] == 0 {
			panic(notIndexed)
		}
		i = follow(t.cells, i)
	}
	t.close(i)
	t.live--
	t.shrink()
}

// close empties the cell at gap. It moves back the cells that probing from their homes would no longer reach.
func (t *table) close(gap int) {
	for i := follow(t.cells, gap); t.cells[i] != 0; i = follow(t.cells, i) {
		if between(t.home(t.cells[i].fragment()), gap, i) {
			continue // its home is after the gap
		}
		t.cells[gap] = t.cells[i]
		gap = i
	}
	t.cells[gap] = 0
}

// between reports whether home lies in the cells after gap up to i, around the end if need be.
func between(home, gap, i int) bool {
	if gap <= i {
		return gap < home && home <= i
	}
	return gap < home || home <= i
}

func (t *table) shrink() {
	switch {
	case t.live == 0:
		t.cells, t.size = nil, 0
	case t.live*3 < len(t.cells) && t.size > t.start:
		t.resize(max(t.start, t.size*2/3))
	}
}

// resize rebuilds the table with at least size cells, as many as the allocator gives for that size.
func (t *table) resize(size int) {
	old := t.cells
	t.size = size
	t.cells = slices.Grow([]cell(nil), size)
	t.cells = t.cells[:cap(t.cells)]
	clear(t.cells)
	for _, c := range old {
		if c != 0 {
			t.place(c)
		}
	}
}
