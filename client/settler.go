package client

import (
	"context"
	"sync"
	"time"
)

// settler gathers the settles of a consumer's leases, as lanes gather calls: a settle goes out at once, and those that
// come meanwhile form the next request. A slow request gives its place to the next, up to a bound. Otherwise outcomes
// for a shard without a leader would hold up the others until their leases end.
type settler struct {
	ctx   context.Context
	c     *conn
	queue string
	moved func() // called when outcomes were settled

	mu      sync.Mutex
	waiting []verdict
	left    int // waiting, or in progress
	out     int // requests in progress that are not slow: 0 or 1
	slow    int
	idle    *sync.Cond // on mu: signals that left is 0
}

// verdict is a line, and the function that gets it with its answer.
type verdict struct {
	line *line
	done func(*line)
}

func newSettler(ctx context.Context, c *conn, queue string, moved func()) *settler {
	s := &settler{ctx: ctx, c: c, queue: queue, moved: moved}
	s.idle = sync.NewCond(&s.mu)
	return s
}

func (s *settler) put(l *line, done func(*line)) {
	s.mu.Lock()
	s.waiting = append(s.waiting, verdict{l, done})
	s.left++
	start := s.mayStart()
	s.mu.Unlock()
	if start {
		go s.run()
	}
}

// mayStart takes the place for a request, if it is free and lines wait. The caller holds the lock.
func (s *settler) mayStart() bool {
	if len(s.waiting) == 0 || s.out > 0 || s.slow >= maxSlow {
		return false
	}
	s.out++
	return true
}

// backlog returns the number of unsettled outcomes.
func (s *settler) backlog() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.left
}

// wait returns when all outcomes are settled, or have failed.
func (s *settler) wait() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.left > 0 {
		s.idle.Wait()
	}
}

func (s *settler) run() {
	for {
		s.mu.Lock()
		n := min(len(s.waiting), maxChunkLines)
		batch := s.waiting[:n:n]
		s.waiting = s.waiting[n:]
		s.mu.Unlock()
		slow := s.settle(batch)
		s.mu.Lock()
		s.left -= n
		if s.left == 0 {
			s.idle.Broadcast()
		}
		if slow {
			s.slow--
		} else {
			s.out--
		}
		more := s.mayStart()
		s.mu.Unlock()
		s.moved()
		if !more {
			return
		}
	}
}

// settle sends a batch in the order of the verbs, and reports whether the request was slow.
func (s *settler) settle(batch []verdict) bool {
	late := false
	over := false
	timer := time.AfterFunc(slowAfter, func() {
		s.mu.Lock()
		start := false
		if !over {
			late = true
			s.out--
			s.slow++
			start = s.mayStart()
		}
		s.mu.Unlock()
		if start {
			go s.run()
		}
	})
	defer timer.Stop()
	lines := make([]*line, 0, len(batch))
	for _, verb := range settleOrder {
		for _, v := range batch {
			if v.line.verb == verb {
				lines = append(lines, v.line)
			}
		}
	}
	s.c.settleLines(s.ctx, s.queue, lines)
	for _, v := range batch {
		v.done(v.line)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	over = true
	return late
}
