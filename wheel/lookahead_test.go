package wheel

import (
	"math/rand/v2"
	"testing"
)

// counting counts the calls of the slab, a measure of time that does not depend on the machine.
type counting struct {
	*slab
	calls int
}

func (c *counting) Read(h Handle) *Node {
	c.calls++
	return c.slab.Read(h)
}

func (c *counting) Write(h Handle) *Node {
	c.calls++
	return c.slab.Write(h)
}

// costs is a wheel that records the cost of its most expensive call.
type costs struct {
	*Wheel
	nodes *counting
	worst int
	total int
	fired []Handle
}

func newCosts() *costs {
	nodes := &counting{slab: newSlab()}
	return &costs{Wheel: New(nodes, 0), nodes: nodes}
}

func (c *costs) measure(call func()) {
	c.nodes.calls = 0
	call()
	c.worst = max(c.worst, c.nodes.calls)
	c.total += c.nodes.calls
}

func (c *costs) fill(n int, due func(i int) int64) {
	for i := range n {
		h := c.nodes.alloc()
		c.measure(func() { c.Insert(h, due(i), uint64(i)) })
	}
}

// advance goes to an instant in slices, and checks the order of the nodes popped.
func (c *costs) advance(t *testing.T, to int64, limit int) (total int) {
	t.Helper()
	var last item
	for more := true; more; {
		c.measure(func() { c.fired, more = c.Advance(to, limit, c.fired[:0]) })
		for _, h := range c.fired {
			it := c.nodes.slab.Read(h).item(h)
			if it.before(last) {
				t.Fatalf("%+v came after %+v", it, last)
			}
			last = it
		}
		total += len(c.fired)
	}
	return total
}

// TestNoCallIsDear loads crowds of several shapes, and checks that no call touches more than a small part of them.
func TestNoCallIsDear(t *testing.T) {
	const n, now = 600_000, 1_790_000_000_000
	random := rand.New(rand.NewPCG(1, 2))
	for _, c := range []struct {
		name  string
		due   func(i int) int64
		limit int // of one slice
		worst int // slab calls in one call
	}{
		{"one hour", func(int) int64 { return random.Int64N(hour) }, 4096, 80_000},
		{"one hour, tomorrow", func(int) int64 { return 24*hour + random.Int64N(hour) }, 1000, 50_000},
		{"two days", func(int) int64 { return random.Int64N(48 * hour) }, 1000, 50_000},
		{"two days, from the epoch", func(int) int64 { return now + random.Int64N(48*hour) }, 1000, 50_000},
		{"one millisecond", func(int) int64 { return 9*hour + 1 }, 1000, 20_000},
		{"first far, then near", func(i int) int64 {
			return int64(100-50*(i/(n/2)))*hour + random.Int64N(hour)
		}, 1000, 50_000},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newCosts()
			w.fill(n, c.due)
			if w.worst > 100 {
				t.Errorf("an insert touched %d nodes", w.worst)
			}
			w.measure(func() { w.Next() })
			if total := w.advance(t, 1<<42, c.limit); total != n {
				t.Errorf("%d fired", total)
			}
			if w.worst > c.worst {
				t.Errorf("a call touched %d nodes", w.worst)
			}
			checkInvariants(t, w.Wheel)
		})
	}
}

// TestCancelOfTheEarliest repeatedly removes the earliest node of a crowd and calls Next. A single call may have to
// finish the spreading of a crowd, but all calls together must not do it twice.
func TestCancelOfTheEarliest(t *testing.T) {
	for name, due := range map[string]func(i int) int64{
		"one millisecond": func(int) int64 { return 9 * hour },
		"a second each":   func(i int) int64 { return 9*hour + int64(i)*1000 },
	} {
		t.Run(name, func(t *testing.T) {
			const n = 50_000
			w := newCosts()
			w.fill(n, due)
			w.total = 0
			for i := range n - 1 {
				w.measure(func() { w.Remove(Handle(i + 1)) })
				w.measure(func() {
					if next, ok := w.Next(); !ok || next != due(i+1) {
						t.Fatalf("Next is %d %t, want %d", next, ok, due(i+1))
					}
				})
			}
			if w.total > 30*n {
				t.Errorf("%d nodes touched for %d removals", w.total, n)
			}
		})
	}
}

// TestNextDuringSpread calls Next twice for a crowd that became the first only by a removal. The first call pays for
// moving the earliest node ahead. The second call must find it there without a look at the rest.
func TestNextDuringSpread(t *testing.T) {
	w := newCosts()
	w.fill(1, func(int) int64 { return 5 * hour })
	w.fill(20_000, func(i int) int64 { return 10*hour + int64(i) })
	w.Remove(1)
	w.worst = 0
	for range 2 {
		w.measure(func() {
			if due, ok := w.Next(); !ok || due != 10*hour {
				t.Errorf("Next is %d %t", due, ok)
			}
		})
	}
	if w.worst > 10_000 {
		t.Errorf("a call touched %d nodes", w.worst)
	}
}

// TestParentBeforeChild checks two nodes of one due. The older one is in a slot of a high level that the cursor has
// reached and no call has opened. The younger one is in the slot of level 0 where an insert puts it now.
func TestParentBeforeChild(t *testing.T) {
	const due = 1 << 30
	p := newPair(t, 0, false)
	p.insert(due)
	p.advance(due-1, 1)
	p.seq = 4 // of the same turn of the low bits
	p.insert(due)
	p.check()
	p.advance(due, 1)
	p.advance(due, 1)
}

// TestGatherAmidASpread gathers a slot while the slot above it still holds nodes that are due amid its nodes.
func TestGatherAmidASpread(t *testing.T) {
	p := newPair(t, 0, true)
	first := p.insert(4100)
	for _, due := range []int64{4110, 4120, 4140} {
		p.insert(due) // the fourth makes a crowd, and two have moved
	}
	p.remove(first)
	p.wheel.refresh(p.wheel.slots.front())
	p.check()
	for p.advance(8000, 1) {
		p.check()
	}
	p.check()
}

// TestCrowdAgainstModel runs real crowds with the default measures against the model.
func TestCrowdAgainstModel(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	p := newPair(t, 1_790_000_000_000, false)
	start := p.model.position
	for range 4000 {
		p.insert(start + 9*hour + random.Int64N(3000))
		p.insert(start + 20*hour + random.Int64N(10*hour))
	}
	for len(p.model.items) > 0 {
		for range 20 {
			h := p.model.items[random.IntN(len(p.model.items))].handle
			switch random.IntN(4) {
			case 0:
				p.remove(h)
			case 1:
				p.reschedule(h, p.nodes.Read(h).Due()+random.Int64N(hour))
			default:
				p.reschedule(h, p.model.position+random.Int64N(10*hour))
			}
			if len(p.model.items) == 0 {
				break
			}
		}
		p.next()
		if due, ok := p.model.next(); ok {
			p.advance(due+random.Int64N(100_000), 100)
		}
	}
	p.check()
}
