package wheel

import "testing"

// checkInvariants walks the whole wheel and checks the invariants of its fields.
func checkInvariants(t testing.TB, w *Wheel) {
	t.Helper()
	total := len(w.heap.items)
	for i := range w.slots.slot {
		total += checkSlot(t, w, i)
	}
	for l := range w.slots.level {
		checkLevel(t, w, l)
	}
	checkHeap(t, w)
	if total += checkRun(t, w); total != w.count {
		t.Fatalf("%d nodes found, Len is %d", total, w.count)
	}
	checkBound(t, w)
	if w.slots.cursor <= w.position && w.position != after(w.position) {
		t.Fatalf("cursor %d is not after position %d", w.slots.cursor, w.position)
	}
}

// checkBound compares the bound of the wheel with the bounds of its slots and the first items beside them.
func checkBound(t testing.TB, w *Wheel) {
	t.Helper()
	bound, ok := w.Bound()
	least, found := w.top()
	for i := range w.slots.slot {
		if c := &w.slots.slot[i]; c.count > 0 && (!found || c.min < least.due) {
			least.due, found = c.min, true
		}
	}
	if ok != found || ok && bound != least.due {
		t.Fatalf("the bound is %d %t, want %d %t", bound, ok, least.due, found)
	}
}

func checkSlot(t testing.TB, w *Wheel, i int) int {
	t.Helper()
	c := w.slots.slot[i]
	if marked := w.slots.occupied[i/fanOut]>>(i%fanOut)&1 == 1; marked != (c.count > 0) {
		t.Fatalf("slot %d holds %d nodes, marked %t", i, c.count, marked)
	}
	if c.count == 0 {
		return 0
	}
	first, last := w.slots.span(i)
	if c.min < first || c.min > last || c.min < w.slots.cursor {
		t.Fatalf("slot %d: bound %d outside of %d to %d, or before cursor %d", i, c.min, first, last, w.slots.cursor)
	}
	count, prev, exact := 0, Handle(0), false
	for h := c.head; h != 0; h = w.nodes.Read(h).Next {
		n := w.nodes.Read(h)
		if n.Prev != prev || n.due < c.min || n.place() != placeOfSlot(i) {
			t.Fatalf("slot %d, bound %d, previous %d: bad node %d %+v", i, c.min, prev, h, n)
		}
		if p := prev; levelOf(i) == 0 && !c.unsorted && p != 0 && w.nodes.Read(p).Seq() > n.Seq() {
			t.Fatalf("slot %d is not in the order it claims", i)
		}
		exact = exact || n.due == c.min
		prev = h
		count++
	}
	if prev != c.tail || count != int(c.count) || !exact && !c.stale {
		t.Fatalf("slot %d %+v: ends at %d, %d nodes, bound exact %t", i, c, prev, count, exact)
	}
	return count
}

func checkLevel(t testing.TB, w *Wheel, l int) {
	t.Helper()
	s, v := &w.slots, w.slots.level[l]
	if bit := uint8(1) << l; (s.open&bit != 0) != (v.mode == open) || (s.filling&bit != 0) != (v.mode == filling) {
		t.Fatalf("level %d: mode %d, open %b, filling %b", l, v.mode, s.open, s.filling)
	}
	if v.mode != idle && v.ahead <= windowOf(s.cursor, l) {
		t.Fatalf("level %d: window %d ahead is not after the cursor's", l, v.ahead)
	}
	if l < levels-1 && v.mode == idle && s.occupied[s.other(l)] != 0 {
		t.Fatalf("level %d: the ring ahead is idle and not empty", l)
	}
	for _, ring := range []int{v.current, s.other(l)} {
		if ring < rings && (s.busy>>ring&1 == 1) != (s.occupied[ring] != 0) {
			t.Fatalf("ring %d: busy %b, occupied %b", ring, s.busy, s.occupied[ring])
		}
	}
}

func checkHeap(t testing.TB, w *Wheel) {
	t.Helper()
	for i, it := range w.heap.items {
		n := w.nodes.Read(it.handle)
		if n.place() != inHeap || int(n.Next) != i || n.item(it.handle) != it {
			t.Fatalf("heap item %d %+v: node %+v", i, it, n)
		}
		if i > 0 && it.before(w.heap.items[(i-1)/heapArity]) {
			t.Fatalf("heap item %d is before its parent", i)
		}
	}
}

func checkRun(t testing.TB, w *Wheel) (count int) {
	t.Helper()
	var prev item
	for _, it := range w.run.items[w.run.head:] {
		if it.handle == 0 {
			continue
		}
		if n := w.nodes.Read(it.handle); n.place() != inRun || n.item(it.handle) != it {
			t.Fatalf("run item %+v: node %+v", it, n)
		}
		if count > 0 && it.before(prev) {
			t.Fatalf("run: %+v after %+v", it, prev)
		}
		prev = it
		count++
	}
	return count
}
