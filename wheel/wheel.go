package wheel

import (
	"fmt"
	"math"
)

// Wheel holds nodes until they are due. It is not safe for concurrent use: every method except Position and Len may
// change it, Next included.
//
// A method panics if an invariant is broken: an insert of a linked node, a removal or reschedule of an unlinked one, or
// a sequence number above MaxSeq.
type Wheel struct {
	nodes    Nodes
	position int64 // all nodes due by then were popped when the position moved there
	target   int64 // the instant of the last Advance if that stopped at its limit; else the position
	count    int

	slots slots
	heap  heap
	run   run
}

// New returns an empty wheel at a position in Unix milliseconds.
func New(nodes Nodes, position int64) *Wheel {
	return &Wheel{nodes: nodes, position: position, target: position, slots: newSlots(after(position))}
}

// Position returns the instant up to which all nodes were popped, in Unix milliseconds. It never goes back.
func (w *Wheel) Position() int64 { return w.position }

// Len returns the number of linked nodes.
func (w *Wheel) Len() int { return w.count }

// Insert links a node that is due at a Unix millisecond, which may be past.
func (w *Wheel) Insert(h Handle, due int64, seq uint64) {
	n := w.nodes.Write(h)
	if h == 0 || n.Linked() || seq > MaxSeq {
		panic(fmt.Sprintf("wheel: insert of handle %d, linked %t, seq %d", h, n.Linked(), seq))
	}
	n.setKey(due, seq)
	w.count++
	w.contribute(w.put(h, n, w.slots.open))
}

// Reschedule gives a linked node another due and sequence number. A later due is cheap, because the node mostly stays
// in its slot.
func (w *Wheel) Reschedule(h Handle, due int64, seq uint64) {
	n := w.linked(h)
	if seq > MaxSeq {
		panic(fmt.Sprintf("wheel: reschedule of handle %d, seq %d", h, seq))
	}
	if i, ok := n.place().slot(); ok && w.mayStay(i, due) {
		w.slots.rewrite(i, w.nodes.Write(h), due, seq)
		return
	}
	n = w.take(h)
	n.setKey(due, seq)
	w.contribute(w.put(h, n, w.slots.open))
}

// Remove unlinks a node.
func (w *Wheel) Remove(h Handle) {
	w.linked(h)
	w.take(h).setPlace(nowhere)
	w.count--
}

func (w *Wheel) linked(h Handle) *Node {
	if h != 0 {
		if n := w.nodes.Read(h); n.Linked() {
			return n
		}
	}
	panic(fmt.Sprintf("wheel: handle %d is not linked", h))
}

// mayStay reports whether a node of slot i may stay there with another due: the slot is opened in time for it, and the
// node does not belong into the heap.
func (w *Wheel) mayStay(i int, due int64) bool {
	first, _ := w.slots.span(i)
	return due >= first && due >= w.slots.cursor && due > w.position
}

// put links a node where its due belongs: in slot i, or in the heap, for which it returns outside. ahead has a bit for
// each level whose ring ahead may be used.
func (w *Wheel) put(h Handle, n *Node, ahead uint8) (i int) {
	i = outside
	if n.due > w.position && n.due >= w.slots.cursor {
		i = w.slots.find(n.due, ahead)
	}
	if i == outside {
		w.heap.push(w.nodes, n.item(h))
		return outside
	}
	w.slots.append(w.nodes, i, h, n)
	return i
}

// take unlinks a node from its place. The caller sets the new place.
func (w *Wheel) take(h Handle) *Node {
	n := w.nodes.Write(h)
	switch i, ok := n.place().slot(); {
	case ok:
		w.slots.unlink(w.nodes, i, n)
	case n.place() == inHeap:
		w.heap.remove(w.nodes, int(n.Next))
	default:
		w.run.remove(n.item(h))
	}
	return n
}

// Next returns the due of the earliest node, in Unix milliseconds; ok is false if there is none. The call also does a
// share of the look-ahead.
func (w *Wheel) Next() (due int64, ok bool) {
	due, ok = w.earliest()
	w.lookAhead(w.slots.stride)
	return due, ok
}

// Bound returns an instant at or before the due of every node, in Unix milliseconds; ok is false if there is no node.
// Bound is a quick estimate of Next that changes nothing. A node that was rescheduled to a later time may hold it back.
func (w *Wheel) Bound() (due int64, ok bool) {
	top, ok := w.top()
	front := w.slots.front()
	if front == outside {
		return top.due, ok
	}
	if bound := w.slots.slot[front].min; !ok || bound < top.due {
		return bound, true
	}
	return top.due, true
}

func (w *Wheel) earliest() (due int64, ok bool) {
	for {
		top, ok := w.top()
		front := w.slots.front()
		if front == outside {
			return top.due, ok
		}
		c := &w.slots.slot[front]
		switch {
		case ok && top.due <= c.min:
			return top.due, true
		case !c.stale || w.slots.exact(c.min):
			return c.min, true
		}
		w.refresh(front)
	}
}

// top returns the first item of run and heap.
func (w *Wheel) top() (item, bool) {
	a, ok := w.run.min()
	b, also := w.heap.min()
	if !ok || also && b.before(a) {
		return b, also
	}
	return a, ok
}

// refresh makes the bound of the front exact, or moves the front's nodes to other slots.
func (w *Wheel) refresh(i int) {
	switch c := &w.slots.slot[i]; {
	case levelOf(i) == 0:
		w.refreshFirst(i)
	case c.count > w.slots.crowd || c.count > few && w.slots.roomBelow(i):
		for c.count > 0 {
			w.spread(i, math.MaxInt)
		}
	default:
		w.rescan(i)
	}
}

// few is the number of nodes up to which a slot is scanned again and again, as its earliest nodes go, rather than
// spread.
const few = 32

// refreshFirst is refresh for level 0, where one node that is due in the slot makes its bound exact. It looks at one
// node more than it moves, however many are due in that millisecond.
func (w *Wheel) refreshFirst(i int) {
	c := &w.slots.slot[i]
	for c.count > 0 {
		if w.nodes.Read(c.head).due == c.min {
			c.stale = false
			return
		}
		w.relocate(i, 1)
	}
}

// rescan looks at all nodes of a slot, and moves away the ones rescheduled beyond its span.
func (w *Wheel) rescan(i int) {
	c := &w.slots.slot[i]
	_, last := w.slots.span(i)
	least := int64(math.MaxInt64)
	for h := c.head; h != 0; {
		n := w.nodes.Read(h)
		next := n.Next
		if n.due <= last {
			least = min(least, n.due)
		} else {
			w.put(h, w.take(h), w.slots.open)
		}
		h = next
	}
	c.min, c.stale = least, false
}

// after returns the instant after t, or t if it is the last one.
func after(t int64) int64 {
	if t == math.MaxInt64 {
		return t
	}
	return t + 1
}
