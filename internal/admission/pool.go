package admission

import "sync"

// Pool is an amount that names share: bytes, or calls under way. It is safe for concurrent use.
//
// A name gets a part while it leaves at least as much free as it holds: half of all, if it is alone. So no name locks
// another out. With n names that take all they can get, each ends at one part of n+1. The empty name may take all that
// is free.
type Pool struct {
	limit int
	most  int // of one name; 0: as much as it leaves free

	mu       sync.Mutex
	taken    int // the sum of the holdings
	holdings map[string]*holding
	last     *holding // of the last lookup
	forgetAt int      // number of holdings from which on the empty ones are forgotten
}

// holding is what one name holds.
type holding struct {
	name string
	held int
}

// NewPool returns a pool of an amount.
func NewPool(limit int) *Pool {
	return &Pool{limit: limit, holdings: map[string]*holding{}, forgetAt: minNames}
}

// NewCappedPool returns a pool of which no name may hold more than most, whatever it leaves free.
func NewCappedPool(limit, most int) *Pool {
	p := NewPool(limit)
	p.most = most
	return p
}

// Take takes n for a name. If it is refused, most is how much the name may hold, or does.
func (p *Pool) Take(name string, n int) (most int, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	own := p.holdingOf(name)
	if most = p.mostOf(own); own.held+n > most {
		return max(most, own.held), false
	}
	own.held += n
	p.taken += n
	return most, true
}

// mostOf returns how much a name may hold.
func (p *Pool) mostOf(own *holding) int {
	all := own.held + p.limit - p.taken
	switch {
	case p.most > 0:
		return min(all, p.most)
	case own.name == "":
		return all
	}
	return (all + 1) / 2 // as much more as leaves the same free
}

// TakeFirst is Take, but never refuses while nothing is held: a piece larger than the pool gets through alone.
func (p *Pool) TakeFirst(name string, n int) (ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	own := p.holdingOf(name)
	if p.taken > 0 && own.held+n > p.mostOf(own) {
		return false
	}
	own.held += n
	p.taken += n
	return true
}

// Resize changes by n what a name holds, whatever the limit: a part that it holds turns out larger or smaller.
func (p *Pool) Resize(name string, n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.holdingOf(name).held += n
	p.taken += n
}

// Give gives n back.
func (p *Pool) Give(name string, n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.holdingOf(name).held -= n
	p.taken -= n
}

// Taken returns how much of the pool is held.
func (p *Pool) Taken() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.taken
}

func (p *Pool) holdingOf(name string) *holding {
	if p.last != nil && p.last.name == name {
		return p.last
	}
	own := p.holdings[name]
	if own == nil {
		p.forget()
		own = &holding{name: name}
		p.holdings[name] = own
	}
	p.last = own
	return own
}

// forget drops the empty holdings. It looks at all of them, and therefore waits until there are twice as many as it
// left the last time.
func (p *Pool) forget() {
	if len(p.holdings) < p.forgetAt {
		return
	}
	for name, own := range p.holdings {
		if own.held == 0 {
			delete(p.holdings, name)
		}
	}
	p.last, p.forgetAt = nil, max(2*len(p.holdings), minNames)
}

// Part is a name's way to a pool.
type Part struct {
	Pool *Pool
	Name string
}

// Take reports whether the name gets n more.
func (p Part) Take(n int) bool {
	_, ok := p.Pool.Take(p.Name, n)
	return ok
}

// Give gives n back.
func (p Part) Give(n int) { p.Pool.Give(p.Name, n) }
