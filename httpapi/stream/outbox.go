package stream

import (
	"sync"

	"github.com/belfryhq/belfry/fsm/fsmpb"
)

// Memory is what all calls of a server share.
type Memory interface {
	Take(bytes int) bool // reports whether the bytes may be held
	Give(bytes int)      // gives them back
}

// Piece is some of an answer, whole lines, with the tasks that are in it.
type Piece struct {
	Data  *[]byte
	Tasks []*fsmpb.Task // leased for the client, whose they are only once they are written
}

// Outbox holds answers until the client takes them. A client that reads late finds them here, as long as they fit.
type Outbox struct {
	most   int    // bytes it may hold
	free   int    // of them, what it may hold without asking the memory
	memory Memory // shared by all calls

	mu    sync.Mutex
	moved sync.Cond // on mu; something below changed
	queue []Piece
	out   Piece // what take handed out last
	lent  int   // its bytes
	size  int   // bytes of queue, and lent: at most free + held once put returns, unless it is a single Piece
	held  int   // bytes taken from memory
	ended bool
	cut   bool
}

// NewOutbox makes an outbox of at most most bytes, of which it takes those beyond free from the memory.
func NewOutbox(most, free int, memory Memory) *Outbox {
	o := &Outbox{most: most, free: min(free, most), memory: memory}
	o.moved.L = &o.mu
	return o
}

// Put hands over a piece, once there is room; an empty outbox always has. It is false if the stream was cut.
func (o *Outbox) Put(p Piece) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	for !o.cut && o.size > 0 && !o.fits(o.size+len(*p.Data)) {
		o.moved.Wait()
	}
	if o.cut {
		return false
	}
	o.add(p)
	return true
}

func (o *Outbox) add(p Piece) {
	o.queue = append(o.queue, p)
	o.size += len(*p.Data)
	o.moved.Broadcast()
}

// PutIfEmpty hands over a piece if nothing else waits, or is being written.
func (o *Outbox) PutIfEmpty(p Piece) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.cut || o.ended || o.size > 0 {
		return false
	}
	o.add(p)
	return true
}

// fits tells whether n bytes may be held, and takes memory for them if need be.
func (o *Outbox) fits(n int) bool {
	const step = 1 << 20
	if n > o.most {
		return false
	}
	for n > o.free+o.held {
		if !o.memory.Take(step) {
			return false
		}
		o.held += step
	}
	return true
}

// take waits for a piece and hands it out; the one before is over with. Last tells that none waits behind it.
// Its data is nil after the last one of all.
func (o *Outbox) take() (p Piece, last bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.size -= o.lent
	o.out, o.lent = Piece{}, 0
	o.moved.Broadcast()
	for !o.cut && !o.ended && len(o.queue) == 0 {
		o.moved.Wait()
	}
	if o.cut || len(o.queue) == 0 {
		return Piece{}, true
	}
	p, o.queue[0] = o.queue[0], Piece{}
	o.queue = o.queue[1:]
	o.out, o.lent = p, len(*p.Data)
	return p, len(o.queue) == 0
}

// Unwritten lists the tasks that were handed over and not written, the piece that take handed out last included.
func (o *Outbox) Unwritten() []*fsmpb.Task {
	o.mu.Lock()
	defer o.mu.Unlock()
	tasks := o.out.Tasks
	for _, p := range o.queue {
		tasks = append(tasks, p.Tasks...)
	}
	return tasks
}

// End says that no more answers come.
func (o *Outbox) End() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ended = true
	o.moved.Broadcast()
}

// Abandon wakes and sends away everyone who waits.
func (o *Outbox) Abandon() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.cut = true
	o.moved.Broadcast()
}

// Release gives the memory back. Nobody may use the outbox any more.
func (o *Outbox) Release() { o.memory.Give(o.held) }
