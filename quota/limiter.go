package quota

import (
	"cmp"
	"context"
	"sync"
	"time"
)

// Config connects a Limiter with the owners of the rates.
type Config struct {
	Node  string
	Draw  func(ctx context.Context, d Draw) (Tokens, error) // asks the owner of the subject's rates
	Nodes func() int                                        // nodes of the cluster; at least 1
	Trip  time.Duration                                     // longest wait for the owner's answer
	Now   func() time.Time
}

// Limiter holds the tokens that this node has drawn for the rates of namespaces and keys. Its methods are safe for
// concurrent use.
type Limiter struct {
	cfg Config

	mu     sync.RWMutex
	meters map[rateKey]*meter
	sweep  time.Time
}

// NewLimiter returns a Limiter without tokens.
func NewLimiter(cfg Config) *Limiter { return &Limiter{cfg: cfg, meters: map[rateKey]*meter{}} }

// Take takes a token of a rate for one call. It returns at once while this node has tokens, or knows that there are
// none. Otherwise it waits for the answer of the rate's owner, for Config.Trip at most. Errors are *Exceeded and the
// context's.
func (l *Limiter) Take(ctx context.Context, s Subject, q Quota, perSecond float64) error {
	if perSecond <= 0 {
		return nil
	}
	m := l.meter(rateKey{s, q})
	m.count(l.cfg.Now(), 1)
	return m.take(ctx, perSecond, 1)
}

// Wait takes n tokens of a rate for the lines of a batch, and waits until the rate allows them. Its error is the
// context's.
func (l *Limiter) Wait(ctx context.Context, s Subject, q Quota, perSecond float64, n int) error {
	if perSecond <= 0 {
		return nil
	}
	m := l.meter(rateKey{s, q})
	piece := max(int(perSecond/10), 1) // what the owner has soon, so that no line waits for a second's tokens
	for n > 0 {
		some := min(n, piece)
		if err := m.await(ctx, perSecond, some); err != nil {
			return err
		}
		n -= some
	}
	return nil
}

func (l *Limiter) meter(key rateKey) *meter {
	l.mu.RLock()
	m := l.meters[key]
	l.mu.RUnlock()
	if m != nil {
		return m
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.forget(l.cfg.Now())
	if m = l.meters[key]; m == nil {
		m = &meter{cfg: &l.cfg, key: key}
		l.meters[key] = m
	}
	return m
}

// forget drops the meters that are not used any more. The caller holds the lock.
func (l *Limiter) forget(now time.Time) {
	if now.Before(l.sweep) {
		return
	}
	l.sweep = now.Add(idle)
	for key, m := range l.meters {
		if m.isIdle(now) {
			delete(l.meters, key)
		}
	}
}

const (
	// drawAgain is the pause after a failed draw. The meter goes by its own bucket meanwhile.
	drawAgain = 50 * time.Millisecond
	// ahead is the time for which tokens are drawn in advance. It is short, since tokens at one node are missing at
	// the others.
	ahead = 20 * time.Millisecond
	// valid is how long drawn tokens may be used.
	valid = time.Second
)

// meter holds this node's tokens of one rate.
type meter struct {
	cfg *Config
	key rateKey

	mu      sync.Mutex
	demand  demand
	tokens  int           // drawn and not used
	until   time.Time     // end of their validity
	dry     time.Time     // the owner has no tokens before this instant
	waiting int           // tokens that callers wait for
	drawn   chan struct{} // closed when the draw under way ends; nil: none is
	lost    bool          // the last draw failed: own counts
	own     bucket        // the tokens that this node allows itself without the owner
	spent   int           // tokens of own that the owner does not know of yet
	granted demand        // tokens that the owner gave
	used    time.Time     // the last call
}

// count records a call's demand.
func (m *meter) count(now time.Time, n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.demand.add(now, n)
	m.used = now
}

func (m *meter) isIdle(now time.Time) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.drawn == nil && m.waiting == 0 && m.spent == 0 && now.Sub(m.used) > idle
}

// take takes n tokens, or returns an *Exceeded or the context's error.
func (m *meter) take(ctx context.Context, perSecond float64, n int) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for {
		now := m.cfg.Now()
		switch {
		case m.spend(now, perSecond, n):
			return nil
		case now.Before(m.dry):
			return m.exceeded(now, perSecond)
		}
		if err := m.awaitDraw(ctx, perSecond, n); err != nil {
			return err
		}
	}
}

// await is take with patience.
func (m *meter) await(ctx context.Context, perSecond float64, n int) error {
	m.count(m.cfg.Now(), n)
	for {
		err := m.take(ctx, perSecond, n)
		full, isFull := err.(*Exceeded) //nolint:errorlint // take returns it unwrapped
		if !isFull {
			return err
		}
		timer := time.NewTimer(max(full.RetryAfter, pace))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		}
	}
}

// spend uses n tokens if they are there. It draws more before the last are used.
func (m *meter) spend(now time.Time, perSecond float64, n int) bool {
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
func (m *meter) overdraw(now time.Time, n int) bool {
	m.own.fill(now)
	if m.own.tokens+rounding < float64(n) {
		return false
	}
	m.own.tokens -= float64(n)
	m.spent += n
	return true
}

// reserve returns the tokens that this node needs soon.
func (m *meter) reserve(now time.Time) int { return int(m.demand.perSecond(now) * ahead.Seconds()) }

// exceeded refuses a call. Used is the limit, since the rate is used up.
func (m *meter) exceeded(now time.Time, perSecond float64) *Exceeded {
	return &Exceeded{
		Quota: m.key.Quota, Subject: m.key.Subject, Limit: perSecond, Used: perSecond, RetryAfter: m.dry.Sub(now),
	}
}

// awaitDraw waits for the draw under way, and begins one if there is none. The caller holds the lock.
func (m *meter) awaitDraw(ctx context.Context, perSecond float64, n int) error {
	m.waiting += n
	defer func() { m.waiting -= n }()
	if m.drawn == nil {
		m.draw(m.cfg.Now(), perSecond)
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
func (m *meter) draw(now time.Time, perSecond float64) {
	m.drawn = make(chan struct{})
	ask := Draw{
		Subject: m.key.Subject, Quota: m.key.Quota, Node: m.cfg.Node, PerSecond: perSecond,
		Want: max(m.waiting+m.reserve(now)-m.tokens, 1), Spent: m.spent,
	}
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), m.cfg.Trip)
		defer cancel()
		got, err := m.cfg.Draw(ctx, ask)
		m.hear(ask, got, err)
	}()
}

// hear ends a draw.
func (m *meter) hear(ask Draw, got Tokens, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.cfg.Now()
	close(m.drawn)
	m.drawn = nil
	if err != nil {
		m.lose(now, ask.PerSecond)
		return
	}
	m.lost = false
	m.spent -= ask.Spent
	m.tokens, m.until = m.tokens+got.N, now.Add(valid)
	m.granted.add(now, got.N)
	if m.dry = (time.Time{}); got.RetryAfter > 0 {
		m.dry = now.Add(got.RetryAfter)
	}
}

// lose notes that the owner cannot be reached. The meter then allows itself the rate that the owner gave it last, or
// its part of the limit if that is more.
func (m *meter) lose(now time.Time, perSecond float64) {
	m.dry = now.Add(drawAgain)
	if m.lost {
		return
	}
	m.lost = true
	share := perSecond / float64(max(m.cfg.Nodes(), 1))
	m.own = bucket{perSecond: min(max(m.granted.perSecond(now), share), perSecond), at: now, tokens: 1}
}

// demand measures a rate over the last tenths of a second, or over a longer window.
type demand struct {
	window time.Duration // 0: usualWindow
	since  time.Time
	n      int     // since then
	rate   float64 // before, a second
}

// usualWindow is the length of one measurement.
const usualWindow = 100 * time.Millisecond

func (d *demand) add(now time.Time, n int) {
	d.turn(now)
	d.n += n
}

// turn ends the measurement that is over.
func (d *demand) turn(now time.Time) {
	window := cmp.Or(d.window, usualWindow)
	switch past := now.Sub(d.since); {
	case past >= 10*window:
		d.rate, d.n, d.since = 0, 0, now
	case past >= window:
		d.rate, d.n, d.since = float64(d.n)/past.Seconds(), 0, now
	}
}

func (d *demand) perSecond(now time.Time) float64 {
	d.turn(now)
	return max(d.rate, float64(d.n)/cmp.Or(d.window, usualWindow).Seconds())
}
