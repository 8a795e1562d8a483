package wheel

import "math"

// Row holds the numbers of matching nodes in the slots of one ring.
type Row struct {
	Level int
	First int64 // first instant of the first slot, in Unix milliseconds
	Slot  int64 // span of a slot, in milliseconds
	Nodes [fanOut]int
}

// Estimate returns the number of matching nodes that are due from first to last, in Unix milliseconds. counted is the
// number of matching nodes in the slots before, and beside the slots.
type Estimate func(first, last int64, counted int) int

// Occupancy counts the nodes that match. It returns a row for each ring that holds one, lower levels first, and the
// number beside the slots, where nodes are due next or outside the range of the slots. It looks at most nodes at most.
// The number in a slot with more nodes than are left to look at is the estimate. A node rescheduled to a later time
// counts in its old slot until the wheel opens this slot.
func (w *Wheel) Occupancy(most int, match func(Handle) bool, estimate Estimate) (rows []Row, beside int) {
	c := counter{to: math.MaxInt64, left: most, match: match}
	c.heap(&w.heap, 0)
	c.run(&w.run)
	beside = c.matching()
	counted, s := beside, &w.slots
	for l := range levels {
		for _, ring := range [...]int{s.level[l].current, s.other(l)} {
			if l == levels-1 && ring != s.level[l].current || s.occupied[ring] == 0 {
				continue
			}
			first, last := s.span(ring * fanOut)
			row := Row{Level: l, First: first, Slot: last - first + 1}
			for d := range fanOut {
				i := ring*fanOut + d
				if nodes := int(s.slot[i].count); nodes <= c.left {
					row.Nodes[d] = c.matchingIn(w, i)
				} else {
					first, last := s.span(i)
					row.Nodes[d] = min(nodes, estimate(first, last, counted))
				}
				counted += row.Nodes[d]
			}
			if row.Nodes != [fanOut]int{} {
				rows = append(rows, row)
			}
		}
	}
	return rows, beside
}

// matchingIn looks at all nodes of slot i, and returns the number of those that match.
func (c *counter) matchingIn(w *Wheel, i int) int {
	before := c.matched
	for h := w.slots.slot[i].head; h != 0; h = w.nodes.Read(h).Next {
		c.left--
		c.look(h)
	}
	return c.matched - before
}

// DueBy returns the number of nodes that are due at or before an instant and match. It looks at most nodes at most. If
// more are due, it takes the others to match as often, and of a slot across the instant it takes the part before it. A
// node that was rescheduled to a later time counts in its old slot until that is opened.
func (w *Wheel) DueBy(to int64, most int, match func(Handle) bool) int {
	c := counter{to: to, left: most, match: match}
	c.heap(&w.heap, 0)
	c.run(&w.run)
	for i := range w.slots.slot {
		if w.slots.slot[i].count > 0 {
			c.slot(w, i)
		}
	}
	return c.matching()
}

// counter counts due nodes.
type counter struct {
	to    int64
	left  int // nodes that may still be looked at
	match func(Handle) bool

	due, seen, matched int
}

// add counts a due node, and looks at it if it may.
func (c *counter) add(h Handle) {
	c.due++
	if c.left > 0 {
		c.left--
		c.look(h)
	}
}

func (c *counter) look(h Handle) {
	c.seen++
	if c.match(h) {
		c.matched++
	}
}

// matching returns the number of due nodes that match.
func (c *counter) matching() int {
	if c.seen == c.due || c.seen == 0 {
		return c.matched + c.due - c.seen
	}
	return int(float64(c.due) * float64(c.matched) / float64(c.seen))
}

// heap counts the items at and below index i.
func (c *counter) heap(p *heap, i int) {
	if i >= len(p.items) || p.items[i].due > c.to {
		return
	}
	c.add(p.items[i].handle)
	for child := i*heapArity + 1; child <= i*heapArity+heapArity; child++ {
		c.heap(p, child)
	}
}

func (c *counter) run(r *run) {
	for _, it := range r.items[r.head:] {
		if it.due > c.to {
			return
		}
		if it.handle != 0 { // a gap otherwise
			c.add(it.handle)
		}
	}
}

func (c *counter) slot(w *Wheel, i int) {
	nodes := int(w.slots.slot[i].count)
	first, last := w.slots.span(i)
	if c.to < first {
		return
	}
	read, due := 0, 0
	for h := w.slots.slot[i].head; h != 0 && c.left > 0; read++ {
		c.left--
		node := w.nodes.Read(h)
		if node.due <= c.to {
			due++
			c.look(h)
		}
		h = node.Next
	}
	switch {
	case read == nodes:
		c.due += due
	case c.to >= last:
		c.due += nodes
	default:
		part := float64(c.to-first+1) / float64(last-first+1)
		c.due += max(due, int(float64(nodes)*part))
	}
}
