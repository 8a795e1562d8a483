package httpapi

import "sync"

// outbox holds answers until the client takes them. A client that reads late finds them here, as long as they fit.
type outbox struct {
	most   int     // bytes it may hold
	free   int     // of them, what it may hold without asking the memory
	memory *budget // shared by all calls

	mu    sync.Mutex
	moved sync.Cond // on mu; something below changed
	queue []*[]byte
	lent  int // bytes that take handed out last
	size  int // bytes of queue, and lent: at most free + held once put returns, unless it is a single piece
	held  int // bytes taken from memory
	ended bool
	cut   bool
}

func newOutbox(most, free int, memory *budget) *outbox {
	o := &outbox{most: most, free: min(free, most), memory: memory}
	o.moved.L = &o.mu
	return o
}

// put hands over a piece, once there is room; an empty outbox always has. It is false if the batch was cut.
func (o *outbox) put(piece *[]byte) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	for !o.cut && o.size > 0 && !o.fits(o.size+len(*piece)) {
		o.moved.Wait()
	}
	if o.cut {
		return false
	}
	o.queue = append(o.queue, piece)
	o.size += len(*piece)
	o.moved.Broadcast()
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
// It is nil after the last one of all.
func (o *outbox) take() (piece *[]byte, last bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.size -= o.lent
	o.lent = 0
	o.moved.Broadcast()
	for !o.cut && !o.ended && len(o.queue) == 0 {
		o.moved.Wait()
	}
	if o.cut || len(o.queue) == 0 {
		return nil, true
	}
	piece, o.queue[0] = o.queue[0], nil
	o.queue = o.queue[1:]
	o.lent = len(*piece)
	return piece, len(o.queue) == 0
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
