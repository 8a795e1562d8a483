package wheel

// Advance moves the position to an instant in Unix milliseconds and pops what is due by then, in the order of (due,
// seq): it appends at most limit handles to dst and unlinks them. If more are due, it pops exactly limit, leaves the
// position where it was and reports more. The position never goes back: Advance to an earlier instant only pops what
// was inserted behind the position and is due by that instant.
func (w *Wheel) Advance(to int64, limit int, dst []Handle) (fired []Handle, more bool) {
	a := advance{Wheel: w, to: to, fired: dst, room: limit}
	for a.room > 0 {
		if !a.step() {
			break
		}
	}
	w.count -= len(a.fired) - len(dst)
	if due, ok := w.earliest(); ok && due <= to {
		w.target, more = to, true
	} else {
		w.arrive(to)
	}
	w.lookAhead(w.slots.stride + max(0, perPop*(len(a.fired)-len(dst))-a.moved))
	return a.fired, more
}

// arrive ends an Advance that left nothing due.
func (w *Wheel) arrive(to int64) {
	w.position = max(w.position, to)
	w.target = w.position
	w.slots.moveTo(after(to))
}

// advance is one call of Advance.
type advance struct {
	*Wheel
	to    int64
	fired []Handle
	room  int // how many may still be popped
	moved int // nodes gathered and cascaded: work that this call need not do ahead as well
}

// step pops something, or opens the front so that the next step can. It returns false if nothing is left to do.
func (a *advance) step() bool {
	front := a.slots.front()
	top, ok := a.top()
	if front == outside {
		return ok && top.due <= a.to && a.popBeside(a.to)
	}
	bound := a.slots.slot[front].min
	if ok && top.due < bound {
		return top.due <= a.to && a.popBeside(min(a.to, bound-1))
	}
	if bound > a.to {
		return false
	}
	a.openSlot(front, ok && top.due == bound)
	return true
}

// popBeside pops from run and heap what is due by last.
func (a *advance) popBeside(last int64) bool {
	for a.room > 0 {
		fromRun, ok := a.run.min()
		fromHeap, also := a.heap.min()
		switch {
		case ok && fromRun.due <= last && !(also && fromHeap.before(fromRun)):
			a.run.pop()
			a.fire(fromRun.handle)
		case also && fromHeap.due <= last:
			a.heap.remove(a.nodes, 0)
			a.fire(fromHeap.handle)
		default:
			return true
		}
	}
	return true
}

func (a *advance) fire(h Handle) {
	a.nodes.Write(h).setPlace(nowhere)
	a.fired = append(a.fired, h)
	a.room--
}

// openSlot takes nodes out of the front, whose bound has been reached. tied: something beside the slots is due just
// then, so that seq has to decide.
func (a *advance) openSlot(i int, tied bool) {
	first, last := a.slots.span(i)
	a.slots.moveTo(first)
	c := &a.slots.slot[i]
	switch level := levelOf(i); {
	case level == 0 && !tied && !c.unsorted:
		a.fireInOrder(i)
	case level == 0 || last <= a.to && c.count <= a.slots.gather && a.slots.emptyBelow(level):
		a.moved += int(c.count)
		a.gather(i)
		a.pass(last)
	default:
		a.moved += a.relocate(i, int(c.count))
	}
}

// pass moves the cursor past what was gathered, so that the heap, not another gathering, takes later inserts amid it.
func (a *advance) pass(last int64) {
	if front := a.slots.front(); front == outside || a.slots.slot[front].min > last {
		a.slots.moveTo(after(last))
	}
}

// emptyBelow tells whether no lower level has a node. Then none can be due amid those of the front.
func (s *slots) emptyBelow(level int) bool {
	lower := uint32(1)<<level - 1
	return s.busy&(lower|lower<<levels) == 0
}

// fireInOrder pops from the head of a slot of level 0 whose nodes are in the order of seq. Those that were
// rescheduled to later move on.
func (a *advance) fireInOrder(i int) {
	c := &a.slots.slot[i]
	h, taken := c.head, 0
	for ; h != 0 && a.room > 0; taken++ {
		n := a.nodes.Write(h)
		next := n.Next
		if n.due == c.min {
			a.fire(h)
		} else {
			a.put(h, n, a.slots.open)
		}
		h = next
	}
	c.stale = true
	a.slots.cut(a.nodes, i, h, taken)
}

// gather empties a slot into the run. Nodes that were rescheduled to after its span move on. It walks the list from
// both ends at once, so that cache misses overlap: they are most of what a fire costs when millions are due.
func (a *advance) gather(i int) {
	c := &a.slots.slot[i]
	_, last := a.slots.span(i)
	n := int(c.count)
	items := a.run.grow(n)
	low, high := 0, n
	for h, t := c.head, c.tail; n > 0; n -= 2 {
		node := a.nodes.Write(h)
		next := node.Next
		if a.collect(h, node, last) {
			items[low] = node.item(h)
			low++
		}
		h = next
		if n == 1 {
			break
		}
		node = a.nodes.Write(t)
		prev := node.Prev
		if a.collect(t, node, last) {
			high--
			items[high] = node.item(t)
		}
		t = prev
	}
	n = low + copy(items[low:], items[high:])
	a.slots.cut(a.nodes, i, 0, int(c.count))
	a.run.add(n, levelOf(i))
}

// collect marks a node for the run, or moves it on.
func (a *advance) collect(h Handle, n *Node, last int64) bool {
	if n.due > last {
		a.put(h, n, a.slots.open)
		return false
	}
	n.setPlace(inRun)
	return true
}
