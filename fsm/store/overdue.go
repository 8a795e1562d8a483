package store

import "container/heap"

// laneHeap is a queue's lanes that have ready tasks, the one on top whose first ready task was due first. Each lane
// moves at most once an entry, however many tasks the entry moved in it.
type laneHeap []*Lane

// place puts a lane where its ready list says: into the heap, elsewhere in it, or out of it.
func (h *laneHeap) place(l *Lane, links listLinks) {
	inHeap := l.waitingAt > 0
	switch {
	case l.ready.len == 0:
		if inHeap {
			heap.Remove(h, l.waitingAt-1)
		}
		return
	case !inHeap:
		l.overdue = links.read(l.ready.head).fireAt
		heap.Push(h, l)
		return
	}
	if first := links.read(l.ready.head).fireAt; first != l.overdue {
		l.overdue = first
		heap.Fix(h, l.waitingAt-1)
	}
}

// The methods of heap.Interface.

func (h laneHeap) Len() int           { return len(h) }
func (h laneHeap) Less(i, j int) bool { return h[i].overdue < h[j].overdue }

func (h laneHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].waitingAt, h[j].waitingAt = i+1, j+1
}

// Push is called by the heap package.
func (h *laneHeap) Push(x any) {
	l := x.(*Lane) // nothing else is pushed
	*h = append(*h, l)
	l.waitingAt = len(*h)
}

// Pop is called by the heap package.
func (h *laneHeap) Pop() any {
	last := len(*h) - 1
	l := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	l.waitingAt = 0
	return l
}
