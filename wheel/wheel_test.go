package wheel

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"unsafe"
)

func TestNodeIs24BytesWithoutPointers(t *testing.T) {
	if size := unsafe.Sizeof(Node{}); size != 24 {
		t.Fatalf("a node is %d bytes", size)
	}
}

// TestBorders puts nodes around every border of every level, at several positions. It fires them one tick at a time
// around the borders, and in one jump.
func TestBorders(t *testing.T) {
	for _, position := range []int64{0, 63, 64, -1, -4097, 1_790_000_000_000, 1<<48 - 1} {
		var dues []int64
		for l := range levels + 1 {
			span := int64(1) << shiftOf(l)
			for _, at := range []int64{span, 63 * span, 64 * span} {
				aligned := position&^(at-1) + at
				dues = append(dues, position+at, aligned-1, aligned, aligned+1)
			}
		}
		t.Run("ticks", func(t *testing.T) {
			p := newPair(t, position, false)
			for _, due := range dues {
				p.insert(due)
			}
			for due, ok := p.model.next(); ok; due, ok = p.model.next() {
				p.next()
				p.advance(due-1, 10)
				p.advance(due, 1)
				p.check()
			}
		})
		t.Run("jump", func(t *testing.T) {
			p := newPair(t, position, false)
			for _, due := range dues {
				p.insert(due)
			}
			p.drain(position+1<<60, 3)
			p.check()
		})
	}
}

func TestFarFuture(t *testing.T) {
	const (
		now  = int64(1_790_000_000_000)
		day  = 24 * hour
		year = 365 * day
	)
	p := newPair(t, now, false)
	for _, due := range []int64{
		math.MinInt64, -1, 0, now - year, now, now + 1, now + 2*day, now + 100*year, now + 200*year, now + 10_000*year,
		math.MaxInt64 - 1, math.MaxInt64,
	} {
		p.insert(due)
	}
	p.check()
	for _, to := range []int64{
		math.MinInt64, now - 1, now, now + 2*day - 1, now + 2*day, now + 100*year, now + 200*year, math.MaxInt64 - 1,
		math.MaxInt64,
	} {
		p.next()
		p.drain(to, 1)
		p.check()
	}
	p.insert(math.MaxInt64)
	p.insert(0)
	p.drain(math.MaxInt64, 1)
	p.check()
}

// TestPositionInTheFuture simulates a clock that ran ahead: nodes inserted behind the position fire at their own due.
func TestPositionInTheFuture(t *testing.T) {
	p := newPair(t, 1000, false)
	p.advance(5000, 10)
	for _, due := range []int64{2000, 4000, 5000, 5001, 3000} {
		p.insert(due)
	}
	for _, to := range []int64{1999, 2000, 3500, 4999, 5000, 5001} {
		p.next()
		p.advance(to, 10)
		p.check()
	}
	if p.wheel.Len() != 0 {
		t.Fatalf("%d are left", p.wheel.Len())
	}
}

// TestLaterRescheduleStays checks that a debounce touches only its own node, and that Next stays exact.
func TestLaterRescheduleStays(t *testing.T) {
	p := newPair(t, 0, false)
	a, b, c := p.insert(5*hour), p.insert(5*hour+1), p.insert(6*hour)
	p.check()
	for i := range int64(10) {
		p.reschedule(b, 5*hour+i*hour)
		if n := len(p.nodes.written); n != 1 || !p.nodes.written[b] {
			t.Fatalf("%d nodes were written for a later reschedule", n)
		}
		p.check()
	}
	p.remove(a)
	p.next()
	p.remove(c)
	p.next()
	p.check()
}

func TestBrokenInvariantsPanic(t *testing.T) {
	for name, f := range map[string]func(w *Wheel){
		"insert twice":        func(w *Wheel) { w.Insert(1, 5, 1) },
		"insert none":         func(w *Wheel) { w.Insert(0, 5, 1) },
		"insert huge seq":     func(w *Wheel) { w.Insert(2, 5, MaxSeq+1) },
		"reschedule huge seq": func(w *Wheel) { w.Reschedule(1, 5, MaxSeq+1) },
		"reschedule unlinked": func(w *Wheel) { w.Reschedule(2, 5, 1) },
		"remove unlinked":     func(w *Wheel) { w.Remove(2) },
		"remove none":         func(w *Wheel) { w.Remove(0) },
	} {
		t.Run(name, func(t *testing.T) {
			s := newSlab()
			w := New(s, 0)
			w.Insert(1, 9, MaxSeq)
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			f(w)
		})
	}
}

// TestRunSorts compares the radix sort with the plain one.
func TestRunSorts(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{0, 1, radixMin - 1, radixMin, 5000} {
		for level := range 4 {
			first := -int64(7) << shiftOf(level)
			items := make([]item, n)
			for i := range items {
				items[i] = item{first + random.Int64N(1<<shiftOf(level)), random.Uint64N(uint64(n)), Handle(i + 1)}
			}
			var r run
			copy(r.grow(n), items)
			r.add(n, level)
			slices.SortFunc(items, compareItems)
			if !slices.EqualFunc(r.items, items, func(a, b item) bool { return compareItems(a, b) == 0 }) {
				t.Fatalf("%d items of level %d are not in order", n, level)
			}
		}
	}
}

// TestBuffersAreGivenBack checks the buffers left after many overdue nodes, and after a crowd in one millisecond out of
// order.
func TestBuffersAreGivenBack(t *testing.T) {
	const n = 200_000
	s := newSlab()
	w := New(s, 0)
	for i := range int64(n) {
		w.Insert(s.alloc(), -i, uint64(i))
		w.Insert(s.alloc(), 50, uint64(n-i))
	}
	var fired []Handle
	for more := true; more; {
		fired, more = w.Advance(50, 1000, fired[:0])
	}
	if kept := cap(w.heap.items) + cap(w.run.items) + cap(w.run.spare); kept > heapKeep+2*runKeep {
		t.Fatalf("%d items are kept", kept)
	}
}
