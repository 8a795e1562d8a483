package wheel

// Looking ahead: a slot with more nodes than can be cascaded in one go is spread over the level below before its time
// comes. Per level, at most one window is spread ahead: the span of the first slot of the level above. If an earlier
// slot becomes crowded, the ring ahead gives its nodes back. The work is counted in moved nodes. Every call does a
// share of it, so that no call takes long. The results of calls do not depend on it.

const (
	perInsert = 2 // nodes that an Insert or Reschedule moves ahead: a crowd is spread as fast as it gathers
	perPop    = 4 // further nodes that an Advance moves ahead per popped node: a crowd pays for the next one
)

// measures are the limits on the work of one call, in nodes.
type measures struct {
	crowd  uint32 // a larger slot is spread ahead of its time
	gather uint32 // a larger slot is not gathered and sorted in one go, unless all is due in one millisecond
	stride int    // nodes that one Next or Advance moves ahead at most, besides its own work
}

func defaultMeasures() measures { return measures{crowd: 1024, gather: 16384, stride: 1024} }

// contribute does the share of a call that put a node into slot i. It works on that slot's own level and not on the
// nearest crowd. Once the ring below is open for a window, all later inserts into the window go one level deeper at no
// cost.
func (w *Wheel) contribute(i int) {
	if i == outside || levelOf(i) == 0 {
		return
	}
	if w.slots.slot[i].count > w.slots.crowd || w.slots.beingSpread(i) {
		w.prepare(levelOf(i), perInsert)
	}
}

// lookAhead moves up to budget nodes to their later slots, on the lowest levels first.
func (w *Wheel) lookAhead(budget int) {
	if !w.slots.unsettled {
		return
	}
	for l := 1; l < levels; l++ {
		if budget -= w.prepare(l, budget); budget <= 0 {
			return
		}
	}
	w.slots.unsettled = false
}

// prepare spreads crowded slots of a level over the level below, as far as the ring ahead of that level allows. It
// returns the number of nodes moved.
func (w *Wheel) prepare(level, budget int) (moved int) {
	for moved < budget {
		w.slots.finish(level - 1)
		i := w.slots.first(level)
		if i == outside || !w.crowded(i) {
			break
		}
		n := w.spread(i, budget-moved)
		if n == 0 {
			break
		}
		moved += n
	}
	return moved
}

// crowded reports whether a slot should be spread. A slot that will be gathered whole needs no spreading.
func (w *Wheel) crowded(i int) bool {
	count := w.slots.slot[i].count
	_, last := w.slots.span(i)
	return count > w.slots.gather || count > w.slots.crowd && last > w.target || w.slots.beingSpread(i)
}

// first returns the first slot of a level that is not empty, or outside.
func (s *slots) first(level int) int {
	ring := s.level[level].current
	if s.occupied[ring] == 0 && s.level[level].mode != idle {
		ring = s.other(level)
	}
	if s.occupied[ring] == 0 {
		return outside
	}
	return s.firstOf(ring)
}

// beingSpread reports whether slot i, above level 0, has begun to fill the ring ahead of the level below.
func (s *slots) beingSpread(i int) bool {
	v := s.level[levelOf(i)-1]
	return v.mode == filling && v.ahead == s.granule(i)
}

// finish ends the mode of a level whose ring ahead has no nodes left to get or to give back.
func (s *slots) finish(level int) {
	switch v := s.level[level]; {
	case v.mode == filling && s.emptyAbove(level, v.ahead):
		s.setMode(level, open)
	case v.mode == draining && s.occupied[s.other(level)] == 0:
		s.setMode(level, idle)
	}
}

// emptyAbove reports whether the slot above that spans a window of this level is empty.
func (s *slots) emptyAbove(level int, window int64) bool {
	above := s.level[level+1]
	ring := above.current
	if windowOf(s.cursor, level+1) != window>>slotBits {
		if above.mode == idle || above.ahead != window>>slotBits {
			return true
		}
		ring = s.other(level + 1)
	}
	return s.occupied[ring]&(1<<(window&(fanOut-1))) == 0
}

// spread moves up to budget nodes of slot i, the first of its level, to the level below, or as many nodes out of the
// way there. It returns the number of nodes moved; 0 means that an earlier window is in the way.
func (w *Wheel) spread(i, budget int) (moved int) {
	s := &w.slots
	below := levelOf(i) - 1
	window := s.granule(i)
	if window == windowOf(s.cursor, below) {
		return w.relocate(i, budget)
	}
	v := &s.level[below]
	switch {
	case v.mode == idle || v.ahead != window && s.occupied[s.other(below)] == 0:
		v.ahead = window
		s.setMode(below, filling)
	case v.ahead == window && v.mode == draining:
		s.setMode(below, filling)
	case v.ahead < window:
		return 0
	case v.ahead > window:
		s.setMode(below, draining)
		return w.drain(below, budget)
	}
	moved = w.relocate(i, budget)
	s.finish(below)
	return moved
}

// roomBelow reports whether slot i can be spread without draining.
func (s *slots) roomBelow(i int) bool {
	below, window := levelOf(i)-1, s.granule(i)
	v := s.level[below]
	return v.mode == idle || v.ahead == window || window == windowOf(s.cursor, below) || s.occupied[s.other(below)] == 0
}

// drain moves up to budget nodes of a level's ring ahead back to the level above.
func (w *Wheel) drain(level, budget int) (moved int) {
	ring := w.slots.other(level)
	for moved < budget && w.slots.occupied[ring] != 0 {
		moved += w.relocate(w.slots.firstOf(ring), budget-moved)
	}
	w.slots.finish(level)
	return moved
}

// relocate moves up to limit nodes from the head of slot i to their present slots, in order. The caller guarantees that
// these are other slots.
func (w *Wheel) relocate(i, limit int) (moved int) {
	c := &w.slots.slot[i]
	h := c.head
	for ; h != 0 && moved < limit; moved++ {
		n := w.nodes.Write(h)
		next := n.Next
		c.stale = c.stale || n.due == c.min
		w.put(h, n, w.slots.open|w.slots.filling)
		h = next
	}
	w.slots.cut(w.nodes, i, h, moved)
	return moved
}
