package wheel

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/belfryhq/belfry/internal/assert"
)

const hour = int64(3_600_000) // ms

// model is the simplest wheel: a sorted slice.
type model struct {
	position int64
	items    []item
}

func (m *model) insert(it item) {
	i, _ := slices.BinarySearchFunc(m.items, it, compareItems)
	m.items = slices.Insert(m.items, i, it)
}

func (m *model) remove(h Handle) {
	m.items = slices.DeleteFunc(m.items, func(it item) bool { return it.handle == h })
}

func (m *model) next() (int64, bool) {
	if len(m.items) == 0 {
		return 0, false
	}
	return m.items[0].due, true
}

func (m *model) advance(to int64, limit int) (fired []Handle, more bool) {
	for len(m.items) > 0 && m.items[0].due <= to && len(fired) < limit {
		fired = append(fired, m.items[0].handle)
		m.items = m.items[1:]
	}
	if len(m.items) > 0 && m.items[0].due <= to {
		return fired, true
	}
	m.position = max(m.position, to)
	return fired, false
}

// pair runs a wheel and the model side by side. It fails as soon as they differ.
type pair struct {
	t     testing.TB
	nodes *strictSlab
	wheel *Wheel
	model model
	tiny  bool // small measures, so that a few nodes are a crowd
	seq   uint64
	free  []Handle
}

func newPair(t testing.TB, position int64, tiny bool) *pair {
	p := &pair{t: t, tiny: tiny, model: model{position: position}}
	p.renew()
	return p
}

func (p *pair) renew() {
	p.nodes, p.free = newStrictSlab(), nil
	p.wheel = New(p.nodes, p.model.position)
	if p.tiny {
		p.wheel.slots.measures = measures{crowd: 3, gather: 8, stride: 2}
	}
}

func (p *pair) handle() Handle {
	if n := len(p.free); n > 0 {
		h := p.free[n-1]
		p.free = p.free[:n-1]
		return h
	}
	return p.nodes.alloc()
}

// key returns the next sequence number. Its low bits are flipped so that seq does not follow the order of inserts.
func (p *pair) key() uint64 {
	p.seq++
	return p.seq ^ 3
}

func (p *pair) insert(due int64) Handle {
	h, seq := p.handle(), p.key()
	p.wheel.Insert(h, due, seq)
	p.model.insert(item{due, seq, h})
	return h
}

func (p *pair) reschedule(h Handle, due int64) {
	seq := p.key()
	p.wheel.Reschedule(h, due, seq)
	p.model.remove(h)
	p.model.insert(item{due, seq, h})
}

func (p *pair) remove(h Handle) {
	p.wheel.Remove(h)
	p.model.remove(h)
	p.release(h)
}

// release overwrites the fields that the wheel leaves to the caller.
func (p *pair) release(h Handle) {
	n := p.nodes.Write(h)
	if n.Linked() {
		p.t.Fatalf("handle %d is still linked", h)
	}
	n.Next, n.Prev = 1<<32-1, 1<<32-1
	p.free = append(p.free, h)
}

func (p *pair) next() {
	p.t.Helper()
	got, ok := p.wheel.Next()
	if want, wantOK := p.model.next(); got != want || ok != wantOK {
		p.t.Fatalf("Next is %d %t, want %d %t", got, ok, want, wantOK)
	}
}

func (p *pair) advance(to int64, limit int) (more bool) {
	p.t.Helper()
	got, more := p.wheel.Advance(to, limit, nil)
	want, wantMore := p.model.advance(to, limit)
	if !slices.Equal(got, want) || more != wantMore {
		p.t.Fatalf("Advance(%d, %d) popped %v, more %t, want %v, %t", to, limit, got, more, want, wantMore)
	}
	assert.MustEqual(p.t, p.wheel.Position(), p.model.position, "position")
	for _, h := range got {
		p.release(h)
	}
	return more
}

func (p *pair) drain(to int64, limit int) {
	p.t.Helper()
	for p.advance(to, limit) {
	}
}

// rebuild replaces the wheel by a new one, as a restore does: with other handles, in another order.
func (p *pair) rebuild() {
	p.renew()
	for i := len(p.model.items) - 1; i >= 0; i-- {
		it := &p.model.items[i]
		it.handle = p.nodes.alloc()
		p.wheel.Insert(it.handle, it.due, it.seq)
	}
}

func (p *pair) check() {
	p.t.Helper()
	assert.MustEqual(p.t, p.wheel.Len(), len(p.model.items), "Len")
	checkInvariants(p.t, p.wheel)
	p.checkRows()
	p.nodes.check(p.t)
}

// fatal makes a testing.TB of rapid's *T.
type fatal struct {
	testing.TB
	t *rapid.T
}

func (f fatal) Helper()                      { f.t.Helper() }
func (f fatal) Fatalf(s string, args ...any) { f.t.Fatalf(s, args...) }

// distance draws distances near the borders of levels, of the sizes of real delays.
func distance() *rapid.Generator[int64] {
	return rapid.Custom(func(t *rapid.T) int64 {
		unit := int64(1) << rapid.IntRange(0, 43).Draw(t, "bits")
		return rapid.Int64Range(0, 3).Draw(t, "times")*unit + rapid.Int64Range(-2, 2).Draw(t, "offset")
	})
}

func position() *rapid.Generator[int64] {
	return rapid.OneOf(
		rapid.SampledFrom([]int64{0, -1, 1_790_000_000_000, 1<<48 - 100, -1 << 48, 1<<42 - 1}),
		rapid.Int64Range(-1<<50, 1<<50),
	)
}

func TestAgainstModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		p := newPair(fatal{t, rt}, position().Draw(rt, "position"), rapid.Bool().Draw(rt, "tiny"))
		near := func() int64 { return p.model.position + distance().Draw(rt, "distance") }
		pick := func() (Handle, bool) {
			if len(p.model.items) == 0 {
				return 0, false
			}
			return rapid.SampledFrom(p.model.items).Draw(rt, "item").handle, true
		}
		rt.Repeat(map[string]func(*rapid.T){
			"insert": func(*rapid.T) { p.insert(near()) },
			"insert past": func(*rapid.T) {
				p.insert(p.model.position - distance().Draw(rt, "distance"))
			},
			"insert many": func(*rapid.T) {
				due, step := near(), rapid.SampledFrom([]int64{0, 1, 7, 1000, 1 << 20}).Draw(rt, "step")
				for i := range rapid.Int64Range(1, 80).Draw(rt, "count") {
					p.insert(due + i*step)
				}
			},
			"reschedule": func(*rapid.T) {
				if h, ok := pick(); ok {
					p.reschedule(h, near())
				}
			},
			"postpone": func(*rapid.T) {
				if h, ok := pick(); ok {
					p.reschedule(h, p.nodes.Read(h).Due()+distance().Draw(rt, "distance"))
				}
			},
			"remove": func(*rapid.T) {
				if h, ok := pick(); ok {
					p.remove(h)
				}
			},
			"remove first": func(*rapid.T) {
				if len(p.model.items) > 0 {
					p.remove(p.model.items[0].handle)
				}
			},
			"advance": func(*rapid.T) { p.advance(near(), rapid.IntRange(0, 100).Draw(rt, "limit")) },
			"advance to next": func(*rapid.T) {
				if due, ok := p.model.next(); ok {
					p.advance(due+rapid.Int64Range(-1, 1).Draw(rt, "offset"), rapid.IntRange(1, 5).Draw(rt, "limit"))
				}
			},
			"next":    func(*rapid.T) { p.next() },
			"rebuild": func(*rapid.T) { p.rebuild() },
			"":        func(*rapid.T) { p.check() },
		})
		p.next()
		p.drain(p.model.position+1<<51, 7)
		p.check()
	})
}

const (
	pageBits = 12
	pageSize = 1 << pageBits
)

// slab is the simplest paged slab, which stands for a caller's.
type slab struct {
	pages [][]Node
	used  Handle
}

func newSlab() *slab { return &slab{pages: [][]Node{make([]Node, pageSize)}} }

func (s *slab) alloc() Handle {
	s.used++ // handle 0 is never given out
	if int(s.used>>pageBits) == len(s.pages) {
		s.pages = append(s.pages, make([]Node, pageSize))
	}
	return s.used
}

func (s *slab) Read(h Handle) *Node  { return &s.pages[h>>pageBits][h&(pageSize-1)] }
func (s *slab) Write(h Handle) *Node { return s.Read(h) }

// strictSlab records the nodes requested with Write, and the expected contents of all others.
type strictSlab struct {
	*slab
	written map[Handle]bool
	before  map[Handle]Node
}

func newStrictSlab() *strictSlab {
	return &strictSlab{slab: newSlab(), written: map[Handle]bool{}, before: map[Handle]Node{}}
}

func (s *strictSlab) Write(h Handle) *Node {
	s.written[h] = true
	return s.slab.Write(h)
}

// check fails if a node changed without a Write since the last check.
func (s *strictSlab) check(t testing.TB) {
	t.Helper()
	for h := Handle(1); h <= s.used; h++ {
		now := *s.slab.Read(h)
		if now != s.before[h] && !s.written[h] {
			t.Fatalf("node %d was modified without Write: %+v, before %+v", h, now, s.before[h])
		}
		s.before[h] = now
	}
	clear(s.written)
}
