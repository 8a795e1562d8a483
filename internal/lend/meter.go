package lend

import (
	"context"
	"sync"
	"time"

	"github.com/belfryhq/belfry/internal/wait"
)

// Rate is a limited rate of calls, of which a Meter draws.
type Rate interface {
	// Draw asks the owner of the rate for tokens.
	Draw(ctx context.Context, ask Borrow, perSecond float64) (Loan, error)
	// Borrowers returns the largest number of borrowers of the rate, which is at least 1.
	Borrowers() int
}

const (
	// drawAgain is the pause after a failed draw. The meter goes by its own bucket meanwhile.
	drawAgain = 50 * time.Millisecond
	// ahead is the time for which tokens are drawn in advance. It is short, since tokens at one node are missing at
	// the others.
	ahead = 20 * time.Millisecond
	// idle is how long a Meter is kept without calls.
	idle = 2 * time.Minute
)

// Meter is the borrower of a rate for calls that come and go. It draws permits, which it calls tokens, for the next
// moments of its own demand. Its methods are safe for concurrent use.
type Meter struct {
	rate Rate
	trip time.Duration // longest wait for the owner's answer

	mu      sync.Mutex
	demand  demand
	tokens  int           // drawn and not used
	until   time.Time     // end of their validity
	dry     time.Time     // the owner has no tokens before this instant
	waiting int           // tokens that callers wait for
	drawn   chan struct{} // closed when the draw under way ends; nil: none is
	lost    bool          // the last draw failed: own counts
	own     Bucket        // the tokens that this node allows itself without the owner
	spent   int           // tokens of own that the owner does not know of yet
	granted demand        // tokens that the owner gave
	used    time.Time     // the last call
}

// NewMeter returns a Meter without tokens. Trip is the longest wait for the answer of the rate's owner.
func NewMeter(rate Rate, trip time.Duration) *Meter { return &Meter{rate: rate, trip: trip} }

// Take takes a token for one call. It returns at once while there are tokens here, or the owner is known to have none.
// Otherwise it waits for the owner's answer, for the trip at most. A positive dry is how long the rate is used up. The
// error is the context's.
func (m *Meter) Take(ctx context.Context, perSecond float64) (dry time.Duration, err error) {
	m.count(1)
	return m.take(ctx, perSecond, 1)
}

// Wait takes n tokens, and waits until the rate allows them. The error is the context's.
func (m *Meter) Wait(ctx context.Context, perSecond float64, n int) error {
	piece := max(int(perSecond/10), 1) // what the owner has soon, so that no call waits for a second's tokens
	for n > 0 {
		some := min(n, piece)
		if err := m.await(ctx, perSecond, some); err != nil {
			return err
		}
		n -= some
	}
	return nil
}

// count records a call's demand.
func (m *Meter) count(n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	m.demand.add(now, n)
	m.used = now
}

// IsIdle reports whether the Meter has nothing to say to the owner and was not used of late, so that it may be dropped.
func (m *Meter) IsIdle() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.drawn == nil && m.waiting == 0 && m.spent == 0 && time.Since(m.used) > idle
}

// take takes n tokens, or returns how long there are none.
func (m *Meter) take(ctx context.Context, perSecond float64, n int) (dry time.Duration, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for {
		now := time.Now()
		switch {
		case m.spend(now, perSecond, n):
			return 0, nil
		case now.Before(m.dry):
			return m.dry.Sub(now), nil
		}
		if err := m.awaitDraw(ctx, perSecond, n); err != nil {
			return 0, err
		}
	}
}

// await is take with patience.
func (m *Meter) await(ctx context.Context, perSecond float64, n int) error {
	m.count(n)
	for {
		dry, err := m.take(ctx, perSecond, n)
		if err != nil || dry == 0 {
			return err
		}
		if !wait.For(ctx, max(dry, pace)) {
			return ctx.Err()
		}
	}
}

// spend uses n tokens if they are there. It draws more before the last are used.
func (m *Meter) spend(now time.Time, perSecond float64, n int) bool {
	if m.tokens > 0 && !now.Before(m.until) {
		m.tokens = 0
	}
	if m.tokens < n {
		return m.lost && m.overdraw(now, n)
	}
	m.tokens -= n
	if 2*m.tokens < m.reserve(now) && m.drawn == nil && !now.Before(m.dry) {
		m.draw(now, perSecond)
	}
	return true
}

// overdraw uses tokens of the meter's own bucket while the owner cannot be reached. The owner charges them later.
func (m *Meter) overdraw(now time.Time, n int) bool {
	m.own.Fill(now)
	if m.own.tokens+rounding < float64(n) {
		return false
	}
	m.own.Take(n)
	m.spent += n
	return true
}

// reserve returns the tokens that this node needs soon.
func (m *Meter) reserve(now time.Time) int { return int(m.demand.perSecond(now) * ahead.Seconds()) }

// awaitDraw waits for the draw under way, and begins one if there is none. The caller holds the lock.
func (m *Meter) awaitDraw(ctx context.Context, perSecond float64, n int) error {
	m.waiting += n
	defer func() { m.waiting -= n }()
	if m.drawn == nil {
		m.draw(time.Now(), perSecond)
	}
	drawn := m.drawn
	m.mu.Unlock()
	defer m.mu.Lock()
	select {
	case <-drawn:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// draw begins a draw. The caller holds the lock.
func (m *Meter) draw(now time.Time, perSecond float64) {
	m.drawn = make(chan struct{})
	ask := Borrow{Want: max(m.waiting+m.reserve(now)-m.tokens, 1), Spent: m.spent}
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), m.trip)
		defer cancel()
		loan, err := m.rate.Draw(ctx, ask, perSecond)
		m.hear(ask, perSecond, loan, err)
	}()
}

// hear ends a draw.
func (m *Meter) hear(ask Borrow, perSecond float64, loan Loan, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	close(m.drawn)
	m.drawn = nil
	if err != nil {
		m.lose(now, perSecond)
		return
	}
	m.lost = false
	m.spent -= ask.Spent
	m.tokens, m.until = m.tokens+loan.Permits, now.Add(Life)
	m.granted.add(now, loan.Permits)
	if m.dry = (time.Time{}); loan.RetryAfter > 0 {
		m.dry = now.Add(loan.RetryAfter)
	}
}

// lose notes that the owner cannot be reached. The meter then allows itself the rate that the owner gave it last, or
// its part of the limit if that is more.
func (m *Meter) lose(now time.Time, perSecond float64) {
	m.dry = now.Add(drawAgain)
	if m.lost {
		return
	}
	m.lost = true
	share := perSecond / float64(max(m.rate.Borrowers(), 1))
	m.own = NewBucket(now, 1, min(max(m.granted.perSecond(now), share), perSecond), time.Second)
}
