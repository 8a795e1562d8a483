package client

import (
	"runtime"
	"sync"
	"time"
)

// lane gathers lines for one address, or for one shard. A request goes out as soon as there is a line. The lines that
// come during a request form the next one.
type lane struct {
	c     *conn
	to    *endpoint // nil: the shard's leader, or a configured address
	shard *shard    // nil: lines of any shard

	mu      sync.Mutex
	waiting []*line // in order of arrival
	out     int     // requests in progress, except slow ones; 0 <= out <= requestsAtOnce
	slow    int     // 0 <= slow <= maxSlow, apart from requests that become slow together
}

const (
	// requestsAtOnce is one, since a second request in progress would make both smaller. In one request more lines share
	// its cost, and the service commits lines that arrive together in one entry anyway.
	requestsAtOnce = 1
	maxLines       = 2000
	maxLineBytes   = 512 << 10

	// slowAfter is the time after which a request counts as slow. It then gives its place to the next one, and its shards
	// travel alone until they answer well again.
	slowAfter = 250 * time.Millisecond
	maxSlow   = 16
)

// put adds lines. Their groups get the answers.
func (l *lane) put(lines ...*line) {
	for _, one := range lines {
		one.state.Store(lineWaiting)
	}
	l.queue(lines...)
}

// queue adds lines. Some of their callers may have left already.
func (l *lane) queue(lines ...*line) {
	l.mu.Lock()
	l.waiting = append(l.waiting, lines...)
	start := l.mayStart()
	l.mu.Unlock()
	if start {
		l.start()
	}
}

// mayStart takes a place for a request, if one is free and lines wait. The caller holds the lock.
func (l *lane) mayStart() bool {
	if len(l.waiting) == 0 || l.out == requestsAtOnce || l.slow >= maxSlow {
		return false
	}
	l.out++
	return true
}

// start sends lines in a goroutine that ends when no line waits. The caller has taken the place.
func (l *lane) start() {
	if !l.c.begin() {
		l.closed()
		return
	}
	go l.run()
}

// closed ends all waiting lines with errClosed, and frees the place.
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
		runtime.Gosched() // callers that were answered together call together, and may join here
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

// take returns the lines for the next request. If no line waits, it frees the place and returns nil.
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

// aside returns the lane to which a line of this lane must change, or nil.
func (l *lane) aside(one *line) *lane {
	if l.shard != nil || one.shard == nil {
		return nil
	}
	return one.shard.aside.Load()
}

// overdue runs when a request is slow. The shards in it travel alone from now on, since one of them may be the cause.
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

// goOn ends a request, and reports whether its goroutine has a place for another one.
func (l *lane) goOn(r *request) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	r.over = true
	if r.slow {
		l.slow--
		return l.mayStart()
	}
	if l.shard != nil && r.well {
		l.shard.trust(l)
	}
	return true
}

// endpoint returns the destination of the next request.
func (l *lane) endpoint() *endpoint {
	if l.to != nil {
		return l.to
	}
	return l.c.directory.target(l.shard)
}
