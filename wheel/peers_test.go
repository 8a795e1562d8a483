package wheel

import (
	container "container/heap"
	"sync"
	"time"

	"github.com/google/btree"
)

// queue is the interface of the wheel and its peers in the benchmarks. Due times count in milliseconds from 0.
type queue interface {
	insert(id uint32, due int64)
	reschedule(ids []uint32, due func() int64)
	cancel(ids []uint32)
	// fire pops the tasks due by then and calls each for them. A queue with a clock of its own does not implement it.
	fire(to int64, limit int, each func(id uint32)) (more bool)
	next() int64
}

// wheelQueue is a Wheel on a slab. Its ids are handles minus one.
type wheelQueue struct {
	*Wheel
	slab *slab
	seq  uint64
	buf  []Handle
	sum  int64
}

func newWheelQueue(capacity int) queue {
	s := newSlab()
	for range capacity + 1 {
		s.alloc()
	}
	return &wheelQueue{Wheel: New(s, 0), slab: s}
}

func (q *wheelQueue) insert(id uint32, due int64) {
	q.seq++
	q.Insert(id+1, due, q.seq)
}

func (q *wheelQueue) reschedule(ids []uint32, due func() int64) {
	q.touch(ids)
	for _, id := range ids {
		q.seq++
		q.Reschedule(id+1, due(), q.seq)
	}
}

// touch reads all nodes of a batch and then their neighbours, so that the cache misses overlap.
func (q *wheelQueue) touch(ids []uint32) {
	for _, id := range ids {
		q.sum += q.slab.Read(id + 1).Due()
	}
	for _, id := range ids {
		next, prev := neighbours(q.slab.Read(id + 1))
		q.sum += q.slab.Read(next).Due() + q.slab.Read(prev).Due()
	}
}

// neighbours returns the nodes that a removal of n would write to, zeros if n is in no slot.
func neighbours(n *Node) (next, prev Handle) {
	if _, ok := n.place().slot(); !ok {
		return 0, 0
	}
	return n.Next, n.Prev
}

func (q *wheelQueue) cancel(ids []uint32) {
	q.touch(ids)
	for _, id := range ids {
		q.Remove(id + 1)
	}
}

func (q *wheelQueue) fire(to int64, limit int, each func(id uint32)) (more bool) {
	q.buf, more = q.Advance(to, limit, q.buf[:0])
	for _, h := range q.buf {
		each(h - 1)
	}
	return more
}

func (q *wheelQueue) next() int64 {
	due, _ := q.Next()
	return due
}

// heapQueue is container/heap with a map from id to element.
type heapQueue struct {
	byID map[uint32]*element
	heap elements
	seq  uint64
}

type element struct {
	item
	index int
}

type elements []*element

func (e elements) Len() int           { return len(e) }
func (e elements) Less(i, j int) bool { return e[i].before(e[j].item) }
func (e elements) Swap(i, j int) {
	e[i], e[j] = e[j], e[i]
	e[i].index, e[j].index = i, j
}

func (e *elements) Push(x any) {
	el := x.(*element)
	el.index = len(*e)
	*e = append(*e, el)
}

func (e *elements) Pop() any {
	last := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return last
}

func newHeapQueue(int) queue { return &heapQueue{byID: map[uint32]*element{}} }

func (q *heapQueue) insert(id uint32, due int64) {
	q.seq++
	el := &element{item: item{due, q.seq, id}}
	q.byID[id] = el
	container.Push(&q.heap, el)
}

func (q *heapQueue) reschedule(ids []uint32, due func() int64) {
	for _, id := range ids {
		q.seq++
		el := q.byID[id]
		el.due, el.seq = due(), q.seq
		container.Fix(&q.heap, el.index)
	}
}

func (q *heapQueue) cancel(ids []uint32) {
	for _, id := range ids {
		container.Remove(&q.heap, q.byID[id].index)
		delete(q.byID, id)
	}
}

func (q *heapQueue) fire(to int64, limit int, each func(id uint32)) (more bool) {
	for len(q.heap) > 0 && q.heap[0].due <= to {
		if limit--; limit < 0 {
			return true
		}
		el := container.Pop(&q.heap).(*element)
		delete(q.byID, el.handle)
		each(el.handle)
	}
	return false
}

func (q *heapQueue) next() int64 { return q.heap[0].due }

// btreeQueue is google/btree with a map from id to key.
type btreeQueue struct {
	byID map[uint32]item
	tree *btree.BTreeG[item]
	seq  uint64
}

func newBTreeQueue(int) queue {
	return &btreeQueue{byID: map[uint32]item{}, tree: btree.NewG(32, item.before)}
}

func (q *btreeQueue) insert(id uint32, due int64) {
	q.seq++
	it := item{due, q.seq, id}
	q.byID[id] = it
	q.tree.ReplaceOrInsert(it)
}

func (q *btreeQueue) reschedule(ids []uint32, due func() int64) {
	for _, id := range ids {
		q.tree.Delete(q.byID[id])
		q.insert(id, due())
	}
}

func (q *btreeQueue) cancel(ids []uint32) {
	for _, id := range ids {
		q.tree.Delete(q.byID[id])
		delete(q.byID, id)
	}
}

func (q *btreeQueue) fire(to int64, limit int, each func(id uint32)) (more bool) {
	for {
		it, ok := q.tree.Min()
		if !ok || it.due > to {
			return false
		}
		if limit--; limit < 0 {
			return true
		}
		q.tree.DeleteMin()
		delete(q.byID, it.handle)
		each(it.handle)
	}
}

func (q *btreeQueue) next() int64 {
	it, _ := q.tree.Min()
	return it.due
}

// timerQueue is time.AfterFunc with a map from id to timer. It fires by the real clock, so the benchmarks only insert,
// reschedule and cancel.
type timerQueue struct {
	mu   sync.Mutex
	byID map[uint32]*time.Timer
}

func newTimerQueue(int) queue { return &timerQueue{byID: map[uint32]*time.Timer{}} }

// delay adds an hour, so that no timer fires during a benchmark.
func delay(due int64) time.Duration { return time.Hour + time.Duration(due)*time.Millisecond }

func (q *timerQueue) insert(id uint32, due int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.byID[id] = time.AfterFunc(delay(due), func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		delete(q.byID, id)
	})
}

func (q *timerQueue) reschedule(ids []uint32, due func() int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, id := range ids {
		q.byID[id].Reset(delay(due()))
	}
}

func (q *timerQueue) cancel(ids []uint32) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, id := range ids {
		q.byID[id].Stop()
		delete(q.byID, id)
	}
}

func (q *timerQueue) fire(int64, int, func(uint32)) bool { panic("time.AfterFunc fires by itself") }
func (q *timerQueue) next() int64                        { panic("time.AfterFunc does not tell") }
