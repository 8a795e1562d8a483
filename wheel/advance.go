package wheel

// Advance moves the position to an instant in Unix milliseconds and pops the nodes due by then, in the order of (due,
// seq). It appends at most limit handles to dst and unlinks them. If more are due, it pops exactly limit, leaves the
// position unchanged and returns more. The position never goes back: an Advance to an earlier instant only pops nodes
// that were inserted behind the position and are due by that instant.
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

// arrive ends an Advance that left no due node.
func (w *Wheel) arrive(to int64) {
	w.position = max(w.position, to)
	w.target = w.position
	w.slots.moveTo(after(to))
}

// advance is the state of one call of Advance.
type advance struct {
	*Wheel
	to    int64
	fired []Handle
	room  int // number of nodes that may still be popped
	moved int // nodes gathered and cascaded: moves that count against the look-ahead of this call
}

// step pops nodes, or opens the front for the next step. It returns false if no due node is left.
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

// popBeside pops the nodes of run and heap that are due by last.
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

// openSlot removes nodes from the front, whose bound is due. tied means that the run or the heap has a node of the same
// due, so that seq decides the order.
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

// pass moves the cursor past the gathered span, so that later inserts into it go to the heap and not to another
// gathering.
func (a *advance) pass(last int64) {
	if front := a.slots.front(); front == outside || a.slots.slot[front].min > last {
		a.slots.moveTo(after(last))
	}
}

// emptyBelow reports whether no lower level has a node. Then no node of a lower level is due amid those of the front.
func (s *slots) emptyBelow(level int) bool {
	lower := uint32(1)<<level - 1
	return s.busy&(lower|lower<<levels) == 0
}

// fireInOrder pops from the head of a slot of level 0 whose nodes are in the order of seq. Nodes rescheduled to a later
// due move on.
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

// gather empties a slot into the run. Nodes rescheduled to after the slot's span move on. gather walks the list from
// both ends at once, so that cache misses overlap: they are most of the cost of a fire when millions are due.
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

// collect marks a node for the run, or moves it on if it is due after last.
func (a *advance) collect(h Handle, n *Node, last int64) bool {
	if n.due > last {
		a.put(h, n, a.slots.open)
		return false
	}
	n.setPlace(inRun)
	return true
}
