package httpapi

import (
	"sync"

	"github.com/belfryhq/belfry/fsm/fsmpb"
)

// piece is some of an answer, whole lines, with the tasks that are in it.
type piece struct {
	data  *[]byte
	tasks []*fsmpb.Task // leased for the client, whose they are only once they are written
}

// outbox holds answers until the client takes them. A client that reads late finds them here, as long as they fit.
type outbox struct {
	most   int     // bytes it may hold
	free   int     // of them, what it may hold without asking the memory
	memory *budget // shared by all calls

	mu    sync.Mutex
	moved sync.Cond // on mu; something below changed
	queue []piece
	out   piece // what take handed out last
	lent  int   // its bytes
	size  int   // bytes of queue, and lent: at most free + held once put returns, unless it is a single piece
	held  int   // bytes taken from memory
	ended bool
	cut   bool
}

func newOutbox(most, free int, memory *budget) *outbox {
	o := &outbox{most: most, free: min(free, most), memory: memory}
	o.moved.L = &o.mu
	return o
}

// put hands over a piece, once there is room; an empty outbox always has. It is false if the stream was cut.
func (o *outbox) put(p piece) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	for !o.cut && o.size > 0 && !o.fits(o.size+len(*p.data)) {
		o.moved.Wait()
	}
	if o.cut {
		return false
	}
	o.add(p)
	return true
}

func (o *outbox) add(p piece) {
	o.queue = append(o.queue, p)
	o.size += len(*p.data)
	o.moved.Broadcast()
}

// putIfEmpty hands over a piece if nothing else waits, or is being written.
func (o *outbox) putIfEmpty(p piece) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.cut || o.ended || o.size > 0 {
		return false
	}
	o.add(p)
	return true
}

// fits tells whether n bytes may be held, and takes memory for them if need be.
func (o *outbox) fits(n int) bool {
	const step = 1 << 20
	if n > o.most {
		return false
	}
	for n > o.free+o.held {
		if !o.memory.take(step) {
			return false
		}
		o.held += step
	}
	return true
}

// take waits for a piece and hands it out; the one before is over with. Last tells that none waits behind it.
// Its data is nil after the last one of all.
func (o *outbox) take() (p piece, last bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.size -= o.lent
	o.out, o.lent = piece{}, 0
	o.moved.Broadcast()
	for !o.cut && !o.ended && len(o.queue) == 0 {
		o.moved.Wait()
	}
	if o.cut || len(o.queue) == 0 {
		return piece{}, true
	}
	p, o.queue[0] = o.queue[0], piece{}
	o.queue = o.queue[1:]
	o.out, o.lent = p, len(*p.data)
	return p, len(o.queue) == 0
}

// unwritten lists the tasks that were handed over and not written, the piece that take handed out last included.
func (o *outbox) unwritten() []*fsmpb.Task {
	o.mu.Lock()
	defer o.mu.Unlock()
	tasks := o.out.tasks
	for _, p := range o.queue {
		tasks = append(tasks, p.tasks...)
	}
	return tasks
}

// end says that no more answers come.
func (o *outbox) end() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ended = true
	o.moved.Broadcast()
}

// abandon wakes and sends away everyone who waits.
func (o *outbox) abandon() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.cut = true
	o.moved.Broadcast()
}

// release gives the memory back. Nobody may use the outbox any more.
func (o *outbox) release() { o.memory.give(o.held) }
