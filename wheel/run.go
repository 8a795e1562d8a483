package wheel

import (
	"cmp"
	"slices"
	"sort"
)

// run holds the items gathered from a slot, sorted and popped from the front. A removed item stays as a gap (handle 0)
// until the run has passed it, so no node needs to know its index.
type run struct {
	items []item // sorted by (due, seq) from head on
	head  int    // items before it are popped; items[head] is never a gap
	spare []item // for sorting
}

const runKeep = 1 << 15 // items; a larger buffer is given back when it falls empty

func (r *run) min() (item, bool) {
	if r.head == len(r.items) {
		return item{}, false
	}
	return r.items[r.head], true
}

// pop removes the first item.
func (r *run) pop() {
	r.head++
	r.trim()
}

// remove removes the item of the same key and handle. It panics if there is none.
func (r *run) remove(it item) {
	rest := r.items[r.head:]
	i := sort.Search(len(rest), func(i int) bool { return !rest[i].before(it) })
	for ; i < len(rest) && !it.before(rest[i]); i++ {
		if rest[i].handle == it.handle {
			rest[i].handle = 0
			r.trim()
			return
		}
	}
	panic("wheel: a node of the run is not in it")
}

// trim moves head to the next item that is no gap, and gives a large empty buffer back.
func (r *run) trim() {
	for r.head < len(r.items) && r.items[r.head].handle == 0 {
		r.head++
	}
	if r.head < len(r.items) {
		return
	}
	r.items, r.head = r.items[:0], 0
	if cap(r.items)+cap(r.spare) > 2*runKeep {
		r.items, r.spare = nil, nil
	}
}

// grow makes room for n items behind the remaining ones, and drops the gaps. The caller fills the room and then calls
// add.
func (r *run) grow(n int) []item {
	left := slices.DeleteFunc(r.items[r.head:], func(it item) bool { return it.handle == 0 })
	r.items, r.head = slices.Grow(r.items[:copy(r.items, left)], n), 0
	return r.items[len(r.items):][:n]
}

// add accepts the first n items of the room that grow made. They come from one slot of the given level, oldest first.
func (r *run) add(n, level int) {
	alone := len(r.items) == 0
	r.items = r.items[:len(r.items)+n]
	if !alone || n < radixMin {
		slices.SortFunc(r.items, compareItems)
		return
	}
	for digit := range level {
		r.distribute(shiftOf(digit))
	}
	r.orderTies()
}

// radixMin is the number of items from which a radix sort is faster than comparing.
const radixMin = 256

// distribute is one pass of a radix sort over the digits of due by which the wheel is built. The pass is stable.
func (r *run) distribute(shift int) {
	var next [fanOut + 1]int
	for _, it := range r.items {
		next[it.due>>shift&(fanOut-1)+1]++
	}
	for d := range fanOut {
		next[d+1] += next[d]
	}
	r.spare = slices.Grow(r.spare[:0], len(r.items))[:len(r.items)]
	for _, it := range r.items {
		d := it.due >> shift & (fanOut - 1)
		r.spare[next[d]] = it
		next[d]++
	}
	r.items, r.spare = r.spare, r.items
}

// orderTies sorts each stretch of equal due by seq unless it is in order already. It is in order if its nodes were
// neither rescheduled nor overtaken.
func (r *run) orderTies() {
	for rest := r.items; len(rest) > 0; {
		n, sorted := 1, true
		for ; n < len(rest) && rest[n].due == rest[0].due; n++ {
			sorted = sorted && rest[n-1].seq <= rest[n].seq
		}
		if !sorted {
			slices.SortFunc(rest[:n], compareItems)
		}
		rest = rest[n:]
	}
}

func compareItems(a, b item) int {
	return cmp.Or(cmp.Compare(a.due, b.due), cmp.Compare(a.seq, b.seq))
}
