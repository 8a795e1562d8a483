package store

import (
	"cmp"
	"container/heap"
	"math"
	"strings"
)

// laneHeap is a heap of a queue's lanes that have ready tasks. On top is the lane whose first ready task was due first,
// and of several such lanes the one of tasks without a target, so that all replicas answer alike. Each lane moves at
// most once an entry, however many of its tasks the entry moved.
type laneHeap []*Lane

// place moves a lane to its right position by its ready list: into the heap, within it, or out of it.
func (h *laneHeap) place(l *Lane, links listLinks) {
	inHeap := l.waitingAt > 0
	switch {
	case l.Ready() == 0:
		if inHeap {
			heap.Remove(h, l.waitingAt-1)
		}
		return
	case !inHeap:
		l.overdue = l.earliest(links)
		heap.Push(h, l)
		return
	}
	if first := l.earliest(links); first != l.overdue {
		l.overdue = first
		heap.Fix(h, l.waitingAt-1)
	}
}

// earliest returns the earliest due time among the first ready tasks of a lane, one of each kind of rank.
func (l *Lane) earliest(links listLinks) int64 {
	due := int64(math.MaxInt64)
	for _, first := range []handle{l.fresh.head, l.retried.head} {
		if first != 0 {
			due = min(due, links.read(first).fireAt)
		}
	}
	if first, ok := l.ranked.first(true); ok {
		due = min(due, first.due)
	}
	return due
}

// The methods of heap.Interface.

func (h laneHeap) Len() int { return len(h) }

func (h laneHeap) Less(i, j int) bool {
	return cmp.Or(cmp.Compare(h[i].overdue, h[j].overdue), strings.Compare(h[i].Destination, h[j].Destination)) < 0
}

func (h laneHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].waitingAt, h[j].waitingAt = i+1, j+1
}

// Push is called by the heap package.
func (h *laneHeap) Push(x any) {
	l := x.(*Lane) // the store pushes only lanes
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
