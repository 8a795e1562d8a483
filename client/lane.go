package client

import (
	"runtime"
	"sync"
	"time"
)

// lane gathers lines for one address, or those of one shard. A request goes out as soon as there is a line; what comes
// while it is out is the next one.
type lane struct {
	c  *Client
	to *endpoint // nil: whoever is to be asked about the shard
	of *shard    // nil: lines of any shard

	mu      sync.Mutex
	waiting []*line // in the order in which they came
	out     int     // requests out, but for slow ones; 0 <= out <= requestsAtOnce
	slow    int     // 0 <= slow <= maxSlow, give or take those that become slow together
}

const (
	// requestsAtOnce is one: a second request on its way would make both smaller. What one costs is shared by more lines,
	// and the service commits what comes together in one entry anyway.
	requestsAtOnce = 1
	maxLines       = 2000
	maxLineBytes   = 512 << 10

	// slowAfter is when a request counts as slow: it gives its place to the next one, and the shards in it travel alone
	// until they are seen to be well.
	slowAfter = 250 * time.Millisecond
	maxSlow   = 16
)

// put adds lines, whose groups will be told.
func (l *lane) put(lines ...*line) {
	for _, one := range lines {
		one.state.Store(lineWaiting)
	}
	l.queue(lines...)
}

// queue adds lines, some of whose callers may have left already.
func (l *lane) queue(lines ...*line) {
	l.mu.Lock()
	l.waiting = append(l.waiting, lines...)
	start := l.mayStart()
	l.mu.Unlock()
	if start {
		l.start()
	}
}

// mayStart takes a place for a request, if there is one and something to be sent. It is called with the lock held.
func (l *lane) mayStart() bool {
	if len(l.waiting) == 0 || l.out == requestsAtOnce || l.slow >= maxSlow {
		return false
	}
	l.out++
	return true
}

// start has lines sent by a goroutine that lives until nothing waits. Its place is taken.
func (l *lane) start() {
	if !l.c.begin() {
		l.closed()
		return
	}
	go l.run()
}

// closed sends everybody away, and gives the place up.
func (l *lane) closed() {
	l.mu.Lock()
	lines := l.waiting
	l.waiting = nil
	l.out--
	l.mu.Unlock()
	for _, one := range lines {
		one.leave(errClosed)
	}
}

func (l *lane) run() {
	defer l.c.end()
	for {
		runtime.Gosched() // callers that were answered together call together: let them get in
		if l.c.ctx.Err() != nil {
			l.closed()
			return
		}
		lines := l.take()
		if lines == nil {
			return
		}
		r := newRequest(l, lines)
		if len(r.lines) > 0 {
			r.carryOut()
		}
		if !l.goOn(r) {
			return
		}
	}
}

// take takes what fits into a request. If nothing waits, the place is given up.
func (l *lane) take() []*line {
	l.mu.Lock()
	defer l.mu.Unlock()
	n, size := 0, 0
	for n < len(l.waiting) && n < maxLines && size < maxLineBytes {
		size += len(l.waiting[n].data)
		n++
	}
	if n == 0 {
		l.out--
		return nil
	}
	lines := l.waiting[:n:n]
	l.waiting = l.waiting[n:]
	return lines
}

// aside is the lane to which a line of this one has to change; nil: none.
func (l *lane) aside(one *line) *lane {
	if l.of != nil || one.shard == nil {
		return nil
	}
	return one.shard.aside.Load()
}

// overdue is called when a request is slow. The shards in it travel alone from now on: one of them may be why.
func (l *lane) overdue(r *request) {
	l.mu.Lock()
	late := !r.over
	start := false
	if late {
		r.slow = true
		l.slow++
		l.out--
		start = l.mayStart()
	}
	l.mu.Unlock()
	if late {
		r.distrust(0)
	}
	if start {
		l.start()
	}
}

// goOn ends a request, and tells whether its goroutine has a place for another one.
func (l *lane) goOn(r *request) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	r.over = true
	if r.slow {
		l.slow--
		return l.mayStart()
	}
	if l.of != nil && r.well {
		l.of.trust(l)
	}
	return true
}

// endpoint is whom the next request goes to.
func (l *lane) endpoint() *endpoint {
	if l.to != nil {
		return l.to
	}
	return l.c.directory.target(l.of)
}
