package lend

import (
	"context"
	"maps"
	"sync"
	"time"
)

// Lender lends the permits of the limits that a shard owns, for one leadership of that shard. P names a limit, and B
// identifies a borrower. Its methods are safe for concurrent use.
type Lender[P, B comparable] struct {
	terms Terms
	begun time.Time

	mu    sync.Mutex
	pools map[P]*pool[B]
	sweep time.Time // when idle pools are next forgotten
}

// NewLender returns the Lender of a leadership that begins now. A rate's bucket has filled only since then, because the
// permits of the time before may be used.
func NewLender[P, B comparable](terms Terms) *Lender[P, B] {
	return &Lender[P, B]{terms: terms, begun: time.Now(), pools: map[P]*pool[B]{}}
}

// Lend takes a borrower's report and lends the wanted permits as far as the limit allows. If none is free and the
// borrower waits, it waits for at most half a second.
func (l *Lender[P, B]) Lend(ctx context.Context, name P, borrower B, ask Borrow, limit Limit) Loan {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	p := l.pool(now, name)
	p.setLimit(now, limit)
	parked := p.ask(now, borrower, ask)
	if parked == nil {
		return Loan{Life: l.terms.Life}
	}
	next := p.serve(now)
	if !ask.Wait {
		loan := Loan{Permits: p.leave(borrower, parked), Life: l.terms.Life}
		if loan.Permits < ask.Want {
			loan.RetryAfter = p.untilNext(now)
		}
		return loan
	}
	return l.wait(ctx, p, borrower, ask, parked, next)
}

// wait waits for permits of a parked call. next is the instant at which some may become free by themselves.
func (l *Lender[P, B]) wait(
	ctx context.Context, p *pool[B], borrower B, ask Borrow, parked <-chan int, next time.Time,
) Loan {
	waiting, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		n, ok := l.await(waiting, parked, next)
		switch {
		case ctx.Err() != nil:
			p.takeBack(borrower, ask, parked, n)
			return Loan{Life: l.terms.Life}
		case ok:
			return Loan{Permits: n, Life: l.terms.Life}
		case waiting.Err() != nil:
			p.takeBack(borrower, ask, parked, 0)
			return Loan{Life: l.terms.Life, RetryAfter: p.retryAfter(time.Now(), borrower)}
		}
		next = p.serve(time.Now())
	}
}

// Rate returns the permits of a limit that passed a second of late.
func (l *Lender[P, B]) Rate(name P) float64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := l.pools[name]
	if p == nil {
		return 0
	}
	return p.passed.perSecond(time.Now())
}

// Short reports whether a borrower waits for permits that the limit does not allow yet.
func (l *Lender[P, B]) Short(name P) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	p, now := l.pools[name], time.Now()
	if p == nil || now.Before(p.opens()) {
		return false
	}
	p.lapse(now)
	return len(p.line) > 0
}

// await releases the lock until permits come, or the instant next, or the end of ctx. ok is false without permits.
func (l *Lender[P, B]) await(ctx context.Context, parked <-chan int, next time.Time) (n int, ok bool) {
	l.mu.Unlock()
	defer l.mu.Lock()
	var alarm <-chan time.Time
	if !next.IsZero() {
		timer := time.NewTimer(time.Until(next))
		defer timer.Stop()
		alarm = timer.C
	}
	select {
	case n := <-parked:
		return n, true
	case <-alarm:
	case <-ctx.Done():
	}
	select {
	case n := <-parked:
		return n, true
	default:
		return 0, false
	}
}

// sweepEach is the time between two looks for idle pools.
const sweepEach = 10 * time.Second

// pool returns the pool of a limit. From time to time it forgets the idle pools.
func (l *Lender[P, B]) pool(now time.Time, name P) *pool[B] {
	if !now.Before(l.sweep) {
		l.sweep = now.Add(sweepEach)
		maps.DeleteFunc(l.pools, func(_ P, p *pool[B]) bool { return p.isIdle(now) })
	}
	p, ok := l.pools[name]
	if !ok {
		p = newPool[B](l.begun, l.terms)
		l.pools[name] = p
	}
	return p
}
