// Package shares divides an amount of a node among namespaces: the memory for bodies and answers, and the number of
// single calls under way.
//
// A namespace gets a part while it leaves at least as much free as it holds: half of all, if it is alone. So no
// namespace locks another out. With n namespaces that take all they can get, each ends at one part of n+1. Package
// places has the same rule for calls that last, by caller.
//
// Callers without credentials, and operators' calls about the whole cluster, count for the empty namespace. It may take
// all that is free: in the first case nothing needs to be left to others, and in the second an operator gets through.
package shares

import "sync"

// Pool is an amount that namespaces share. It is safe for concurrent use.
type Pool struct {
	limit int

	mu    sync.Mutex
	taken int            // 0 <= taken <= limit
	by    map[string]int // its parts
}

// New returns a pool with an amount.
func New(limit int) *Pool { return &Pool{limit: limit, by: map[string]int{}} }

// maxIdle is the number of namespaces from which on those that hold nothing are forgotten.
const maxIdle = 64

// Take takes a part for a namespace. If it is refused, most is how much the namespace may hold, or does.
func (p *Pool) Take(namespace string, n int) (most int, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	own, known := p.by[namespace]
	if most = own + p.limit - p.taken; namespace != "" {
		most = (most + 1) / 2 // as much more as leaves the same free
	}
	if own+n > most {
		return max(most, own), false
	}
	if !known && len(p.by) >= maxIdle {
		p.forget()
	}
	p.taken += n
	p.by[namespace] = own + n
	return most, true
}

func (p *Pool) forget() {
	for namespace, part := range p.by {
		if part == 0 {
			delete(p.by, namespace)
		}
	}
}

// Give gives a part back.
func (p *Pool) Give(namespace string, n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.taken -= n
	p.by[namespace] -= n
}

// Taken returns how much of the pool is held.
func (p *Pool) Taken() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.taken
}

// Part is a namespace's way to a pool.
type Part struct {
	Pool      *Pool
	Namespace string
}

// Take reports whether the namespace gets n more.
func (p Part) Take(n int) bool {
	_, ok := p.Pool.Take(p.Namespace, n)
	return ok
}

// Give gives n back.
func (p Part) Give(n int) { p.Pool.Give(p.Namespace, n) }
