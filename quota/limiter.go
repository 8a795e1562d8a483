package quota

import (
	"context"
	"sync"
	"time"

	"github.com/belfryhq/belfry/internal/lend"
)

// LimitKey names a limit: a quota of one subject.
type LimitKey struct {
	Subject
	Quota
}

// Rates reaches the owners of the rates.
type Rates interface {
	// Draw asks the owner of a rate for tokens. perSecond is the limit as this node knows it.
	Draw(ctx context.Context, key LimitKey, ask lend.Borrow, perSecond float64) (lend.Loan, error)
	// Borrowers returns the number of nodes of the cluster, which is at least 1.
	Borrowers() int
}

// Limiter keeps the calls of this node within the rates of namespaces and keys. Its methods are safe for concurrent
// use.
type Limiter struct {
	rates Rates
	trip  time.Duration

	mu     sync.RWMutex
	meters map[LimitKey]*lend.Meter
	sweep  time.Time
}

// NewLimiter returns a Limiter without tokens. Trip is the longest wait for an owner's answer.
func NewLimiter(rates Rates, trip time.Duration) *Limiter {
	return &Limiter{rates: rates, trip: trip, meters: map[LimitKey]*lend.Meter{}}
}

// Take takes a token of a rate for one call. It returns at once while this node has tokens, or knows that there are
// none. Otherwise it waits for the answer of the rate's owner, for the trip at most. Errors are *Exceeded and the
// context's.
func (l *Limiter) Take(ctx context.Context, s Subject, q Quota, perSecond float64) error {
	if perSecond <= 0 {
		return nil
	}
	dry, err := l.meter(LimitKey{s, q}).Take(ctx, perSecond)
	if dry > 0 {
		// Used is the limit, since the rate is used up.
		return &Exceeded{Quota: q, Subject: s, Limit: perSecond, Used: perSecond, RetryAfter: dry}
	}
	return err
}

// Wait takes n tokens of a rate for the lines of a batch, and waits until the rate allows them. Its error is the
// context's.
func (l *Limiter) Wait(ctx context.Context, s Subject, q Quota, perSecond float64, n int) error {
	if perSecond <= 0 {
		return nil
	}
	return l.meter(LimitKey{s, q}).Wait(ctx, perSecond, n)
}

func (l *Limiter) meter(key LimitKey) *lend.Meter {
	l.mu.RLock()
	m := l.meters[key]
	l.mu.RUnlock()
	if m != nil {
		return m
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.forget(time.Now())
	if m = l.meters[key]; m == nil {
		m = lend.NewMeter(rate{l.rates, key}, l.trip)
		l.meters[key] = m
	}
	return m
}

// rate is one rate, of which a lend.Meter draws.
type rate struct {
	Rates
	key LimitKey
}

func (r rate) Draw(ctx context.Context, ask lend.Borrow, perSecond float64) (lend.Loan, error) {
	return r.Rates.Draw(ctx, r.key, ask, perSecond)
}

// idle is how long the records of a limit are kept without calls.
const idle = 2 * time.Minute

// forget drops the meters that are not used any more. The caller holds the lock.
func (l *Limiter) forget(now time.Time) {
	if now.Before(l.sweep) {
		return
	}
	l.sweep = now.Add(idle)
	for key, m := range l.meters {
		if m.IsIdle() {
			delete(l.meters, key)
		}
	}
}
