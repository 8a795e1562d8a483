package turns

import "sync"

// Gate admits pieces of work of namespaces. It is safe for concurrent use.
type Gate struct {
	limit  int
	weight func(namespace string) int

	mu     sync.Mutex
	atWork int     // pieces; atWork == limit while one waits
	clock  float64 // start of the piece that was admitted last after it had to wait
	lines  map[string]*line
	full   []*line // with a waiting piece
}

// line is the waiting pieces of one namespace.
type line struct {
	waiting []*waiter
	next    float64 // start of its next piece, unless the clock is past it
}

type waiter struct {
	price    float64
	admitted chan struct{}
}

// New returns a gate for limit pieces at a time. A namespace's part is by its weight; nil: all have the same.
func New(limit int, weight func(namespace string) int) *Gate {
	return &Gate{limit: limit, weight: weight, lines: map[string]*line{}}
}

// Enter waits until a piece of work may begin. The caller must call Leave at its end, and not wait for anything before.
func (g *Gate) Enter(namespace string, bytes int) {
	g.mu.Lock()
	if g.atWork < g.limit {
		g.atWork++
		g.mu.Unlock()
		return
	}
	admitted := g.await(namespace, bytes)
	g.mu.Unlock()
	<-admitted
}

// await puts a piece into the line of its namespace.
func (g *Gate) await(namespace string, bytes int) (admitted chan struct{}) {
	l := g.lineOf(namespace)
	if len(l.waiting) == 0 {
		l.next = max(l.next, g.clock)
		g.full = append(g.full, l)
	}
	w := &waiter{float64(max(bytes, leastBytes)) / float64(weightOf(g.weight, namespace)), make(chan struct{})}
	l.waiting = append(l.waiting, w)
	return w.admitted
}

// leastBytes is the price of the smallest piece: each costs some microseconds beside its bytes.
const leastBytes = 256

// Leave ends a piece, and admits the next one.
func (g *Gate) Leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.full) == 0 {
		if g.atWork--; g.atWork == 0 {
			clear(g.lines) // a line is ahead of others only while there is work
		}
		return
	}
	at := 0
	for i, l := range g.full {
		if l.next < g.full[at].next {
			at = i
		}
	}
	l := g.full[at]
	w := l.waiting[0]
	l.waiting[0] = nil
	l.waiting = l.waiting[1:]
	g.clock = max(g.clock, l.next)
	l.next += w.price
	if len(l.waiting) == 0 {
		g.full[at] = g.full[len(g.full)-1]
		g.full[len(g.full)-1] = nil
		g.full = g.full[:len(g.full)-1]
	}
	close(w.admitted)
}

// maxLines is the number of lines from which on those are forgotten that owe nothing.
const maxLines = 64

func (g *Gate) lineOf(namespace string) *line {
	if l := g.lines[namespace]; l != nil {
		return l
	}
	if len(g.lines) >= maxLines {
		for name, l := range g.lines {
			if len(l.waiting) == 0 && l.next <= g.clock {
				delete(g.lines, name)
			}
		}
	}
	l := &line{}
	g.lines[namespace] = l
	return l
}

func weightOf(weight func(namespace string) int, namespace string) int {
	if weight == nil {
		return 1
	}
	return max(weight(namespace), 1)
}
