package admission

import (
	"context"
	"sync"
)

// Gate makes pieces of work wait until they may begin: at most limit at a time, and at most each of one name. The
// pieces that wait are in a Queue. It is safe for concurrent use.
type Gate struct {
	limit, each int // 0: any number

	mu     sync.Mutex
	atWork int            // pieces that were admitted and have not left
	own    map[string]int // of them, those of each name, without zeros; only if each > 0
	queue  Queue[*waiter]
}

// waiter is a piece that waits.
type waiter struct {
	price    float64
	admitted chan struct{} // closed when it may begin
}

// NewGate returns a gate for limit pieces at a time, each of them of one name. 0 stands for any number.
func NewGate(limit, each int, weights Weights) *Gate {
	return &Gate{limit: limit, each: each, own: map[string]int{}, queue: Queue[*waiter]{Weights: weights}}
}

// Enter waits until a piece of work on some bytes may begin. The caller must call Leave at its end, and not wait for
// anything before.
func (g *Gate) Enter(name string, bytes int) {
	if w := g.enter(name, bytes); w != nil {
		<-w.admitted
	}
}

// Await is Enter for a piece that may last, until the context ends. Its error is the context's.
func (g *Gate) Await(ctx context.Context, name string) error {
	w := g.enter(name, 0)
	if w == nil {
		return nil
	}
	select {
	case <-w.admitted:
		return nil
	case <-ctx.Done():
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.queue.Remove(name, func(other *waiter) bool { return other == w }) {
		return ctx.Err()
	}
	return nil // it was admitted meanwhile
}

// enter admits a piece at once and returns nil, or puts it into the queue.
func (g *Gate) enter(name string, bytes int) *waiter {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.begin(name) {
		return nil
	}
	w := &waiter{PriceOf(bytes), make(chan struct{})}
	g.queue.Add(name, w)
	return w
}

// begin counts a piece, or returns false if it must wait.
func (g *Gate) begin(name string) bool {
	if g.limit > 0 && g.atWork >= g.limit || g.each > 0 && g.own[name] >= g.each {
		return false
	}
	g.atWork++
	if g.each > 0 {
		g.own[name]++
	}
	return true
}

// Leave ends a piece, and admits the next one.
func (g *Gate) Leave(name string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.atWork--
	if g.each > 0 {
		if g.own[name]--; g.own[name] == 0 {
			delete(g.own, name)
		}
	}
	l := g.queue.Next()
	if g.each > 0 {
		l = g.queue.NextOf(func(name string) bool { return g.own[name] < g.each })
	}
	if l == nil {
		return
	}
	w := g.queue.Take(l)
	g.queue.Charge(l, w.price)
	g.begin(l.Name())
	close(w.admitted)
}

// pieceBytes is the length of a piece of a Turn: about a quarter of a millisecond of parsing.
const pieceBytes = 16 << 10

// Turn cuts the work of one goroutine into pieces. One goroutine uses it at a time.
type Turn struct {
	gate   *Gate
	name   string
	atWork bool
	left   int // bytes of the present piece
}

// Turn returns a turn of a name, which is not at work.
func (g *Gate) Turn(name string) *Turn { return &Turn{gate: g, name: name} }

// Work announces work on some bytes. When the present piece is used up, others go first, so Work may wait. The caller
// must call Pause before it waits for anything else, and at the end.
func (t *Turn) Work(bytes int) {
	if t.left <= 0 {
		t.Pause()
	}
	if !t.atWork {
		t.gate.Enter(t.name, pieceBytes)
		t.atWork, t.left = true, pieceBytes
	}
	t.left -= bytes
}

// Pause ends the present piece, if there is one.
func (t *Turn) Pause() {
	if t.atWork {
		t.atWork = false
		t.gate.Leave(t.name)
	}
}
