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

// Config connects a Limiter with the owners of the rates.
type Config struct {
	// Draw asks the owner of a rate for tokens. perSecond is the limit as this node knows it.
	Draw  func(ctx context.Context, key LimitKey, ask lend.Borrow, perSecond float64) (lend.Loan, error)
	Nodes func() int    // nodes of the cluster; at least 1
	Trip  time.Duration // longest wait for the owner's answer
}

// Limiter keeps the calls of this node within the rates of namespaces and keys. Its methods are safe for concurrent
// use.
type Limiter struct {
	cfg Config

	mu     sync.RWMutex
	meters map[LimitKey]*lend.Meter
	sweep  time.Time
}

// NewLimiter returns a Limiter without tokens.
func NewLimiter(cfg Config) *Limiter { return &Limiter{cfg: cfg, meters: map[LimitKey]*lend.Meter{}} }

// Take takes a token of a rate for one call. It returns at once while this node has tokens, or knows that there are
// none. Otherwise it waits for the answer of the rate's owner, for Config.Trip at most. Errors are *Exceeded and the
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
		m = lend.NewMeter(lend.MeterConfig{
			Call: func(ctx context.Context, ask lend.Borrow, perSecond float64) (lend.Loan, error) {
				return l.cfg.Draw(ctx, key, ask, perSecond)
			},
			Borrowers: l.cfg.Nodes, Trip: l.cfg.Trip,
		})
		l.meters[key] = m
	}
	return m
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
