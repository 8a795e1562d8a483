package wheel

import "testing"

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
