package stream

import (
	"slices"
	"sync"

	"github.com/belfryhq/belfry/fsm/fsmpb"
)

// Memory is the memory that all calls of a server share.
type Memory interface {
	Take(bytes int) bool // reports whether the bytes may be held
	Give(bytes int)      // gives them back
}

// Piece is a part of an answer, in whole lines, with its tasks.
type Piece struct {
	Data  *[]byte
	Tasks []*fsmpb.Task // leased for the client, but the client's only once they are written
}

// Outbox holds answers for a client that reads late, up to a bound.
type Outbox struct {
	most   int    // largest number of bytes held
	free   int    // part of most that is held without memory's consent
	memory Memory // shared by all calls

	mu    sync.Mutex
	moved sync.Cond // on mu; something below changed
	queue []Piece
	out   Piece         // the piece that take returned last
	lent  int           // its bytes
	size  int           // bytes of queue, and lent: at most free + held once Put returns, unless it is a single Piece
	held  int           // bytes taken from memory
	kept  []*fsmpb.Task // of withdrawn pieces
	ended bool
	shut  bool // no piece with tasks is taken
	cut   bool
}

// NewOutbox returns an outbox of at most most bytes. It takes the bytes beyond free from memory.
func NewOutbox(most, free int, memory Memory) *Outbox {
	o := &Outbox{most: most, free: min(free, most), memory: memory}
	o.moved.L = &o.mu
	return o
}

// Put adds a piece, once there is room. An empty outbox always has room. Put returns false if the stream was cut, and,
// after Withdraw, for a piece with tasks.
func (o *Outbox) Put(p Piece) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	for !o.refuses(p) && o.size > 0 && !o.fits(o.size+len(*p.Data)) {
		o.moved.Wait()
	}
	if o.refuses(p) {
		return false
	}
	o.add(p)
	return true
}

func (o *Outbox) refuses(p Piece) bool { return o.cut || o.shut && p.Tasks != nil }

// Withdraw takes back the pieces with tasks whose writing has not begun.
func (o *Outbox) Withdraw() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.shut = true
	o.queue = slices.DeleteFunc(o.queue, func(p Piece) bool {
		if p.Tasks != nil {
			o.kept = append(o.kept, p.Tasks...)
			o.size -= len(*p.Data)
		}
		return p.Tasks != nil
	})
	o.moved.Broadcast()
}

func (o *Outbox) add(p Piece) {
	o.queue = append(o.queue, p)
	o.size += len(*p.Data)
	o.moved.Broadcast()
}

// PutIfEmpty adds a piece if no other piece waits or is being written. It returns false otherwise.
func (o *Outbox) PutIfEmpty(p Piece) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.cut || o.ended || o.size > 0 {
		return false
	}
	o.add(p)
	return true
}

// fits reports whether n bytes may be held, and takes memory for them if necessary.
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

// take waits for a piece and returns it; the piece before counts as written. last reports that no other piece waits.
// The piece's Data is nil after the last piece.
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

// Unwritten returns the tasks of pieces that were not written, including those that were withdrawn, and the piece that
// take returned last.
func (o *Outbox) Unwritten() []*fsmpb.Task {
	o.mu.Lock()
	defer o.mu.Unlock()
	tasks := slices.Concat(o.kept, o.out.Tasks)
	for _, p := range o.queue {
		tasks = append(tasks, p.Tasks...)
	}
	return tasks
}

// End marks that no more answers come.
func (o *Outbox) End() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ended = true
	o.moved.Broadcast()
}

// Abandon wakes all waiting callers, and Put returns false from now on.
func (o *Outbox) Abandon() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.cut = true
	o.moved.Broadcast()
}

// Release gives the memory back. The outbox must not be used afterwards.
func (o *Outbox) Release() { o.memory.Give(o.held) }
