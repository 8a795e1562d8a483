package lend

import (
	"context"
	"sync"
	"time"
)

// Lender lends the permits of the queues that a shard owns, for one leadership of that shard.
type Lender struct {
	opens time.Time

	mu     sync.Mutex
	queues map[[2]string]*pool // by namespace and name
	sweep  time.Time           // when idle queues are next forgotten
}

// NewLender returns the Lender of a leadership that begins now. It takes reports for one Life before it lends.
func NewLender() *Lender {
	return &Lender{opens: time.Now().Add(Life), queues: map[[2]string]*pool{}}
}

// Lend takes a borrower's report and lends the wanted permits as far as the limit allows. If none is free, it waits for
// at most half a Life.
func (l *Lender) Lend(ctx context.Context, ask Borrow, limit Limit) Loan {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	p := l.pool(now, [2]string{ask.Namespace, ask.Queue})
	p.setLimit(now, limit)
	parked := p.ask(now, ask)
	if parked == nil {
		return Loan{Life: Life}
	}
	waiting, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		next := p.serve(time.Now())
		n, ok := l.await(waiting, parked, next)
		switch {
		case ctx.Err() != nil:
			p.takeBack(ask, parked, n)
			return Loan{Life: Life}
		case ok:
			return Loan{Permits: n, Life: Life}
		case waiting.Err() != nil:
			p.takeBack(ask, parked, 0)
			return Loan{Life: Life, RetryAfter: p.retryAfter(time.Now(), ask.Shard)}
		}
	}
}

// Short reports whether a shard waits for permits of a queue, which the limits do not allow yet.
func (l *Lender) Short(namespace, queue string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	p, now := l.queues[[2]string{namespace, queue}], time.Now()
	if p == nil || now.Before(l.opens) {
		return false
	}
	p.lapse(now)
	return len(p.line) > 0
}

// await releases the lock until permits come, or the instant next, or the end of ctx. ok is false without permits.
func (l *Lender) await(ctx context.Context, parked <-chan int, next time.Time) (n int, ok bool) {
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

// pool returns a queue's pool. Every ten Lives it forgets the idle pools.
func (l *Lender) pool(now time.Time, name [2]string) *pool {
	if !now.Before(l.sweep) {
		l.sweep = now.Add(10 * Life)
		for name, p := range l.queues {
			p.lapse(now)
			p.bucket.fill(now)
			if p.isIdle() {
				delete(l.queues, name)
			}
		}
	}
	p, ok := l.queues[name]
	if !ok {
		p = newPool(l.opens)
		l.queues[name] = p
	}
	return p
}
