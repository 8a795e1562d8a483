package wheel

import (
	"math"
	"math/bits"
)

const (
	slotBits = 6
	fanOut   = 1 << slotBits // slots in a ring
	levels   = 8
	rings    = 2*levels - 1 // the top level needs no second ring: no level lies above it

	slotCount = rings * fanOut
	outside   = -1 // the index of no slot
)

// slot is a list of nodes, oldest first. Its nodes are due within its span, or later if they were rescheduled lazily.
type slot struct {
	min        int64 // within the span, and at most the due of each node; undefined while empty
	head, tail Handle
	count      uint32
	stale      bool // min may be lower than the earliest due; else it equals that due
	unsorted   bool // level 0 only: nodes due in the span may be out of the order of seq
}

// slots holds all levels. The slot of ring r and digit d has index r*fanOut+d. Ring r belongs to level r%levels.
//
// Each level has a ring for the window with the cursor (the 64 slots that one slot of the level above spans), and
// another one for a window ahead: see lookahead.go.
type slots struct {
	slot     [slotCount]slot
	occupied [rings]uint64 // a bit for each slot that is not empty
	busy     uint32        // a bit for each ring with such a slot
	level    [levels]level
	open     uint8 // a bit for each level in mode open
	filling  uint8 // a bit for each level in mode filling

	cursor int64 // no node in a slot is due before it

	measures

	// unsettled is set when the look-ahead may have work: a slot became crowded, or another slot became the first.
	unsettled bool
}

// level holds the roles of a level's two rings.
type level struct {
	current int   // the ring of the window with the cursor
	ahead   int64 // the window of the other ring, unless that is idle; always later than the current one
	mode    mode
}

// mode is the state of a ring ahead.
type mode uint8

const (
	idle     mode = iota // empty, without a window
	filling              // takes the nodes of the slot above; new nodes still join them there, to keep their order
	open                 // takes all nodes of its window
	draining             // gives its nodes back to the level above, because another window needs the ring sooner
)

func newSlots(cursor int64) slots {
	s := slots{cursor: cursor, measures: defaultMeasures()}
	for l := range s.level {
		s.level[l].current = l
	}
	return s
}

func levelOf(i int) int { return i / fanOut % levels }

func shiftOf(level int) int { return level * slotBits }

// windowOf returns the number of a level's window: all instants with the same number share one ring.
func windowOf(due int64, level int) int64 { return due >> shiftOf(level+1) }

// other returns the ring ahead of a level below the top.
func (s *slots) other(level int) int {
	if s.level[level].current == level {
		return level + levels
	}
	return level
}

// window returns the window of the ring that slot i is in.
func (s *slots) window(i int) int64 {
	l := levelOf(i)
	if s.level[l].current == i/fanOut {
		return windowOf(s.cursor, l)
	}
	return s.level[l].ahead
}

// granule returns the number of a level's slot through all time. It is also the number of the window, one level below,
// that the slot spans.
func (s *slots) granule(i int) int64 { return s.window(i)<<slotBits | int64(i%fanOut) }

// span returns the first and the last instant of slot i.
func (s *slots) span(i int) (first, last int64) {
	shift := shiftOf(levelOf(i))
	first = s.granule(i) << shift
	return first, first + (1<<shift - 1)
}

// find returns the slot for a node that is due at or after the cursor, or outside. ahead has a bit for each level whose
// ring ahead may be used.
func (s *slots) find(due int64, ahead uint8) int {
	top := 0
	if x := uint64(due ^ s.cursor); x != 0 {
		top = (bits.Len64(x) - 1) / slotBits
	}
	if top >= levels {
		return outside
	}
	for m := ahead & (1<<top - 1); m != 0; m &= m - 1 {
		if l := bits.TrailingZeros8(m); windowOf(due, l) == s.level[l].ahead {
			return indexOf(s.other(l), l, due)
		}
	}
	return indexOf(s.level[top].current, top, due)
}

func indexOf(ring, level int, due int64) int {
	return ring*fanOut + int(due>>shiftOf(level)&(fanOut-1))
}

func (s *slots) setMode(level int, m mode) {
	bit := uint8(1) << level
	s.open &^= bit
	s.filling &^= bit
	switch m {
	case open:
		s.open |= bit
	case filling:
		s.filling |= bit
	}
	s.level[level].mode = m
}

// front returns the slot with the lowest bound, or outside if all are empty. Among equal bounds it prefers the highest
// level, so that a front of level 0 has all nodes due in its millisecond.
func (s *slots) front() int {
	front, least := outside, int64(math.MaxInt64)
	for m := s.busy; m != 0; m &= m - 1 {
		i := s.firstOf(bits.TrailingZeros32(m))
		if c := &s.slot[i]; c.min < least || front == outside || c.min == least && levelOf(i) > levelOf(front) {
			front, least = i, c.min
		}
	}
	return front
}

// exact reports whether a slot that is not stale has the lowest bound.
func (s *slots) exact(bound int64) bool {
	for m := s.busy; m != 0; m &= m - 1 {
		if c := &s.slot[s.firstOf(bits.TrailingZeros32(m))]; c.min == bound && !c.stale {
			return true
		}
	}
	return false
}

// firstOf returns the first slot of a ring that is not empty.
func (s *slots) firstOf(ring int) int { return ring*fanOut + bits.TrailingZeros64(s.occupied[ring]) }

// append links a node at the end of slot i.
func (s *slots) append(nodes Nodes, i int, h Handle, n *Node) {
	c := &s.slot[i]
	n.setPlace(placeOfSlot(i))
	n.Next, n.Prev = 0, 0
	if c.count == 0 {
		*c = slot{min: n.due, head: h}
		s.occupied[i/fanOut] |= 1 << (i % fanOut)
		s.busy |= 1 << (i / fanOut)
	} else {
		last := nodes.Write(c.tail)
		last.Next, n.Prev = h, c.tail
		c.unsorted = c.unsorted || last.Seq() > n.Seq()
	}
	c.tail = h
	c.count++
	c.lower(n.due)
	s.unsettled = s.unsettled || c.count == s.crowd+1
}

// lower adjusts the bound for a node of the slot with this due.
func (c *slot) lower(due int64) {
	if due <= c.min {
		c.min, c.stale = due, false
	}
}

// unlink removes a node from slot i. The caller sets its place.
func (s *slots) unlink(nodes Nodes, i int, n *Node) {
	c := &s.slot[i]
	if n.Next != 0 {
		nodes.Write(n.Next).Prev = n.Prev
	} else {
		c.tail = n.Prev
	}
	if n.Prev != 0 {
		nodes.Write(n.Prev).Next = n.Next
	} else {
		c.head = n.Next
	}
	c.stale = c.stale || n.due == c.min
	s.shrink(i, 1)
}

// cut completes the removal of n nodes from the head of slot i. rest is the first node that stays, or 0.
func (s *slots) cut(nodes Nodes, i int, rest Handle, n int) {
	c := &s.slot[i]
	c.head = rest
	if rest != 0 {
		nodes.Write(rest).Prev = 0
	}
	s.shrink(i, n)
}

func (s *slots) shrink(i, n int) {
	c := &s.slot[i]
	if c.count -= uint32(n); c.count > 0 {
		return
	}
	s.unsettled = s.unsettled || levelOf(i) > 0
	ring := i / fanOut
	if s.occupied[ring] &^= 1 << (i % fanOut); s.occupied[ring] == 0 {
		s.busy &^= 1 << ring
	}
}

// moveTo moves the cursor forward. No node may be left before it. A level whose ring ahead is reached swaps its rings.
func (s *slots) moveTo(cursor int64) {
	if cursor <= s.cursor {
		return
	}
	from := s.cursor
	s.cursor = cursor
	for l := range s.level {
		window := windowOf(cursor, l)
		if window == windowOf(from, l) {
			return
		}
		s.unsettled = true
		s.enter(l, window)
	}
}

func (s *slots) enter(level int, window int64) {
	v := &s.level[level]
	left := s.occupied[v.current]
	switch {
	case v.mode == idle || v.ahead > window:
	case v.ahead == window:
		v.current = s.other(level)
		s.setMode(level, idle)
	default:
		left |= s.occupied[s.other(level)]
		s.setMode(level, idle)
	}
	if left != 0 {
		panic("wheel: the cursor leaves nodes behind")
	}
}

// rewrite gives a node of slot i another key in place.
func (s *slots) rewrite(i int, n *Node, due int64, seq uint64) {
	c := &s.slot[i]
	c.stale = c.stale || n.due == c.min
	c.unsorted = true
	n.setKey(due, seq)
	c.lower(due)
}
