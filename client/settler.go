package client

import (
	"context"
	"sync"
	"time"
)

// settler gathers what becomes of a consumer's leases, as lanes gather calls: a settle goes out at once, and what comes
// while it is out is the next one. One that is slow gives its place to the next, up to a bound: outcomes for a shard
// without a leader must not keep back those for others until their leases end.
type settler struct {
	ctx   context.Context
	c     *Client
	queue string
	moved func() // is called when some were settled

	mu      sync.Mutex
	waiting []verdict
	left    int // waiting, or on their way
	out     int // settles under way that are not slow: 0 or 1
	slow    int
	idle    *sync.Cond // on mu: left is 0
}

// verdict is a line, and who is told what it was answered.
type verdict struct {
	line *line
	done func(*line)
}

func newSettler(ctx context.Context, c *Client, queue string, moved func()) *settler {
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

// mayStart is called with the lock held.
func (s *settler) mayStart() bool {
	if len(s.waiting) == 0 || s.out > 0 || s.slow >= maxSlow {
		return false
	}
	s.out++
	return true
}

// backlog is how many are not settled yet.
func (s *settler) backlog() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.left
}

// wait returns when all are settled, or have come to nothing.
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

// settle carries some out, in the order of the verbs, and tells whether it was slow.
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
