package admission

import (
	"container/heap"
	"iter"
	"slices"
)

// Weights returns the weight of a name: its part beside others. Nil: all names weigh one.
type Weights func(name string) int

// Of returns the weight of a name, at least one.
func (w Weights) Of(name string) int {
	if w == nil {
		return 1
	}
	return max(w(name), 1)
}

// Queue holds pieces of waiting work, a line for each name. The pieces of a line leave in the order in which they came.
// The next line is the least served one for each unit of its weight. It is not safe for concurrent
// use. The zero Queue is empty.
type Queue[T any] struct {
	Weights Weights

	waiting  lines[T] // a heap
	byName   map[string]*Line[T]
	last     *Line[T] // of the last lookup
	pieces   int      // in all lines
	start    float64  // what the line whose piece was taken last had been served before; its turn, in the paper's words
	most     float64  // that a line has been served
	joined   uint64   // times that a line got its first piece
	forgetAt int      // number of lines from which on those that owe nothing are forgotten
}

// Line is the pieces of one name in a Queue.
type Line[T any] struct {
	name   string
	pieces []T     // those before head are zero
	head   int     // index of the first piece
	served float64 // the sum of its prices, for each unit of its weight
	order  uint64  // among lines that have been served as much
	index  int     // in the heap; negative: the line has no piece
}

// Name returns the line's name.
func (l *Line[T]) Name() string { return l.name }

// Len returns the number of the line's pieces.
func (l *Line[T]) Len() int { return len(l.pieces) - l.head }

// First returns the line's next piece. There must be one.
func (l *Line[T]) First() T { return l.pieces[l.head] }

// lines is a heap of lines with a piece. The least served line is first.
type lines[T any] []*Line[T]

func (h lines[T]) Len() int           { return len(h) }
func (h lines[T]) Less(i, j int) bool { return h[i].isBefore(h[j]) }
func (h lines[T]) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

func (h *lines[T]) Push(x any) {
	l := x.(*Line[T])
	l.index = len(*h)
	*h = append(*h, l)
}

func (h *lines[T]) Pop() any {
	last := len(*h) - 1
	l := (*h)[last]
	(*h)[last], l.index = nil, -1
	*h = (*h)[:last]
	return l
}

func (l *Line[T]) isBefore(other *Line[T]) bool {
	return l.served < other.served || l.served == other.served && l.order < other.order
}

// Len returns the number of pieces in all lines.
func (q *Queue[T]) Len() int { return q.pieces }

// Names returns the number of names with a piece.
func (q *Queue[T]) Names() int { return len(q.waiting) }

// Add appends a piece to the line of a name. A line that was empty counts as served as much as the line whose turn it
// is, so its absence gives it no claim.
func (q *Queue[T]) Add(name string, piece T) {
	l := q.lineOf(name)
	if l.index < 0 {
		q.joined++
		l.order, l.served = q.joined, max(l.served, q.start)
		heap.Push(&q.waiting, l)
	}
	if l.head > 0 && len(l.pieces) == cap(l.pieces) && l.head >= len(l.pieces)/2 {
		l.compact()
	}
	l.pieces = append(l.pieces, piece)
	q.pieces++
}

// compact makes the memory of pieces that have left free for others.
func (l *Line[T]) compact() {
	n := copy(l.pieces, l.pieces[l.head:])
	clear(l.pieces[n:])
	l.pieces, l.head = l.pieces[:n], 0
}

// Next returns the line whose turn it is, or nil if all are empty.
func (q *Queue[T]) Next() *Line[T] {
	if len(q.waiting) == 0 {
		return nil
	}
	return q.waiting[0]
}

// NextOf returns the line whose turn it is among those whose names pass, or nil. Its cost grows with the number of
// lines that do not pass.
func (q *Queue[T]) NextOf(passes func(name string) bool) *Line[T] { return q.waiting.first(0, passes) }

// first returns the first line that passes of the part of the heap below and at an index.
func (h lines[T]) first(at int, passes func(name string) bool) *Line[T] {
	switch {
	case at >= len(h):
		return nil
	case passes(h[at].name):
		return h[at]
	}
	left, right := h.first(2*at+1, passes), h.first(2*at+2, passes)
	if left == nil || right != nil && right.isBefore(left) {
		return right
	}
	return left
}

// Take removes and returns the first piece of a line that Next or NextOf has returned. The caller charges its price. A
// line that NextOf has passed over has no claim from that time.
func (q *Queue[T]) Take(l *Line[T]) T {
	var none T
	piece := l.pieces[l.head]
	l.pieces[l.head] = none
	l.head++
	if l.served < q.start {
		l.served = q.start
		heap.Fix(&q.waiting, l.index)
	}
	q.start = l.served
	q.left(l)
	return piece
}

// Charge adds a price to the service of a line from which a piece was taken, before the next piece is. The line may
// have another piece by then.
func (q *Queue[T]) Charge(l *Line[T], price float64) {
	l.served += price / float64(q.Weights.Of(l.name))
	q.most = max(q.most, l.served)
	if l.index >= 0 {
		heap.Fix(&q.waiting, l.index)
	} else if len(q.waiting) == 0 {
		q.start = q.most // all lines are equal again
	}
}

// leastBytes is the size of the smallest piece by its price: each piece costs some microseconds beside its bytes.
const leastBytes = 256

// PriceOf returns the price of a piece of work on some bytes.
func PriceOf(bytes int) float64 { return float64(max(bytes, leastBytes)) }

// maxKept is the number of pieces for which an empty line keeps memory.
const maxKept = 256

// left records that a piece has left a line.
func (q *Queue[T]) left(l *Line[T]) {
	q.pieces--
	if l.head < len(l.pieces) {
		return
	}
	if l.pieces, l.head = l.pieces[:0], 0; cap(l.pieces) > maxKept {
		l.pieces = nil
	}
	heap.Remove(&q.waiting, l.index)
}

// Remove removes a piece from the line of a name without a charge. It reports whether the piece was there.
func (q *Queue[T]) Remove(name string, is func(piece T) bool) bool {
	l := q.byName[name]
	if l == nil {
		return false
	}
	at := slices.IndexFunc(l.pieces[l.head:], is)
	if at < 0 {
		return false
	}
	l.pieces = slices.Delete(l.pieces, l.head+at, l.head+at+1)
	q.left(l)
	return true
}

// All returns all pieces. The pieces of one line are in order.
func (q *Queue[T]) All() iter.Seq[T] {
	return func(yield func(T) bool) {
		for _, l := range q.waiting {
			for _, piece := range l.pieces[l.head:] {
				if !yield(piece) {
					return
				}
			}
		}
	}
}

// Clear removes all pieces, and forgets what the lines have been served.
func (q *Queue[T]) Clear() { *q = Queue[T]{Weights: q.Weights} }

// minNames is the number of names that a Queue or a Pool knows before it forgets any.
const minNames = 64

func (q *Queue[T]) lineOf(name string) *Line[T] {
	if q.last != nil && q.last.name == name {
		return q.last
	}
	l := q.byName[name]
	if l == nil {
		q.forget()
		l = &Line[T]{name: name, index: -1}
		q.byName[name] = l
	}
	q.last = l
	return l
}

// forget drops the empty lines that have not been served beyond the one whose turn it is. It looks at all lines, and
// therefore waits until there are twice as many as it left the last time.
func (q *Queue[T]) forget() {
	if q.byName == nil {
		q.byName, q.forgetAt = map[string]*Line[T]{}, minNames
	}
	if len(q.byName) < q.forgetAt {
		return
	}
	for name, l := range q.byName {
		if l.Len() == 0 && l.served <= q.start {
			delete(q.byName, name)
		}
	}
	q.last, q.forgetAt = nil, max(2*len(q.byName), minNames)
}
