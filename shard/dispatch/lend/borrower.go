package lend

import (
	"context"
	"sync"
	"time"
)

// BorrowerConfig names the queue and the shard of a Borrower, and connects it with the owner.
type BorrowerConfig struct {
	Context          context.Context // the leadership's: with its end all permits are void
	Namespace, Queue string
	Shard            uint32
	Term             uint64
	Call             func(context.Context, Borrow) (Loan, error)
	Got              func() // there are permits; called by a goroutine of the Borrower's
}

// maxWant bounds what one call asks for.
const maxWant = 4096

// Borrower holds the permits that a shard's leader has borrowed of one queue. Its methods are safe for concurrent use.
// At most one call to the owner is under way.
type Borrower struct {
	cfg BorrowerConfig

	mu       sync.Mutex
	inFlight int       // as last reported
	begun    int       // permits taken since: not yet in inFlight
	unused   int       // permits, valid until
	until    time.Time //
	want     int       // as last reported; begins that wait for a permit
	recorded int       // permits that the owner counts as held here
	counted  bool      // an attempt's end frees something: the owner must hear of it at once
	outdated bool      // the report of the call under way holds no more
	renew    time.Time // when the owner must hear of them again
	quiet    time.Time // nothing more is asked for before
	failures int       // calls in a row
	round    uint64
	running  bool          // run is
	changed  chan struct{} // capacity 1: look again
}

// NewBorrower holds nothing yet.
func NewBorrower(cfg BorrowerConfig) *Borrower {
	return &Borrower{cfg: cfg, changed: make(chan struct{}, 1)}
}

// Free returns how many attempts may begin now.
func (b *Borrower) Free(now time.Time) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.free(now)
}

func (b *Borrower) free(now time.Time) int {
	if b.unused > 0 && !now.Before(b.until) {
		b.unused = 0
	}
	return b.unused
}

// Take uses one permit up. It returns false if there is none. The next Report counts the attempt that it begins.
func (b *Borrower) Take(now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.free(now) == 0 {
		return false
	}
	b.unused--
	b.begun++
	return true
}

// CountInFlight says whether the queue's limits include max_in_flight. Otherwise no borrower waits for an
// attempt's end.
func (b *Borrower) CountInFlight(yes bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.counted = yes
}

// Report says how many attempts and leases are under way, with all for which permits were taken, and how many more
// could begin. Permits that are more than that go back.
func (b *Borrower) Report(now time.Time, inFlight, want int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.inFlight, b.begun, b.want = inFlight, 0, want
	b.unused = min(b.free(now), want)
	select {
	case b.changed <- struct{}{}:
	default:
	}
	if !b.running && !b.isIdle() {
		b.running = true
		go b.run()
	}
}

// held returns the permits that the owner must count on.
func (b *Borrower) held() int { return b.inFlight + b.begun + b.unused }

// isIdle reports whether there is nothing to report to the owner, now or later.
func (b *Borrower) isIdle() bool { return b.held() == 0 && b.want == 0 && b.recorded == 0 }

// due returns how long the owner need not be called; 0: now.
func (b *Borrower) due(now time.Time) time.Duration {
	missing := b.want > b.free(now)
	switch {
	case b.failures > 0:
		return max(b.quiet.Sub(now), 0)
	case b.hasNews(), missing && !now.Before(b.quiet):
		return 0
	case !missing:
		return max(b.renew.Sub(now), 0)
	case b.held() == 0:
		return max(b.quiet.Sub(now), 0)
	}
	return max(min(b.renew.Sub(now), b.quiet.Sub(now)), 0)
}

// hasNews reports whether less is held here than the owner counts on, so that another borrower may wait for it.
func (b *Borrower) hasNews() bool { return b.held() < b.recorded && (b.counted || b.held() == 0) }

// run calls the owner as long as there is something to report.
func (b *Borrower) run() {
	for b.await() {
		ask := b.say()
		ctx, cancel := context.WithCancel(b.cfg.Context)
		stop := b.interrupt(ctx, cancel, ask)
		loan, err := b.cfg.Call(ctx, ask)
		cancel()
		<-stop
		if b.cfg.Context.Err() != nil {
			continue
		}
		if b.hear(ask, loan, err) {
			b.cfg.Got()
		}
	}
}

// await waits until the owner should be called. It returns false, and run ends, when there is nothing to report.
func (b *Borrower) await() bool {
	for {
		b.mu.Lock()
		if b.isIdle() || b.cfg.Context.Err() != nil {
			b.running = false
			b.mu.Unlock()
			return false
		}
		wait := b.due(time.Now())
		b.mu.Unlock()
		if wait == 0 {
			return true
		}
		timer := time.NewTimer(wait)
		select {
		case <-b.cfg.Context.Done():
		case <-b.changed:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// say makes the next report.
func (b *Borrower) say() Borrow {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	b.round++
	unused := b.free(now)
	b.renew = now.Add(patience)
	b.recorded, b.outdated = b.held(), false
	return Borrow{
		Namespace: b.cfg.Namespace, Queue: b.cfg.Queue, Shard: b.cfg.Shard, Term: b.cfg.Term, Round: b.round,
		InFlight: b.inFlight + b.begun, Unused: unused, Want: min(max(b.want-unused, 0), maxWant),
	}
}

// interrupt ends a call that waits at the owner once its report is outdated: attempts have ended, whose permits it may
// be waiting for, or no more permits are wanted.
func (b *Borrower) interrupt(ctx context.Context, cancel context.CancelFunc, ask Borrow) <-chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-ctx.Done():
				return
			case <-b.changed:
			}
			if b.isOutdated(ask) {
				cancel()
			}
		}
	}()
	return done
}

func (b *Borrower) isOutdated(ask Borrow) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.outdated = b.outdated || ask.Want > 0 && (b.hasNews() || b.want == 0)
	return b.outdated
}

// hear takes the owner's answer to a call. It reports whether there are new permits.
func (b *Borrower) hear(ask Borrow, loan Loan, err error) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	asked := b.renew.Add(-patience)
	switch {
	case err != nil && b.outdated:
		return false
	case err != nil && b.held() == 0 && b.want == 0:
		b.recorded = 0 // it will lapse
		return false
	case err != nil:
		b.failures++
		b.quiet = now.Add(min(Life/64<<min(b.failures, 5), patience))
		return false
	}
	b.failures, b.quiet = 0, now.Add(loan.RetryAfter)
	b.free(now)
	b.until = asked.Add(min(loan.Life, Life))
	b.unused += loan.Permits
	b.recorded += loan.Permits
	return loan.Permits > 0
}
