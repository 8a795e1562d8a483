package lend

import (
	"context"
	"sync"
	"time"
)

// Queue is a limited queue, for which a Borrower borrows.
type Queue interface {
	// Borrow asks the owner of the queue's limit for permits.
	Borrow(ctx context.Context, ask Borrow) (Loan, error)
	// Lent says that permits have come. The Borrower's goroutine calls it.
	Lent()
}

// maxWant limits the permits that one call asks for.
const maxWant = 4096

// Borrower is the borrower of a limit for work that waits: it holds the permits of one queue that a shard's leader has
// borrowed. Its methods are safe for concurrent use. At most one call to the owner is under way.
type Borrower struct {
	ctx   context.Context // of the leadership: its end voids all permits
	term  uint64          // of that leadership
	queue Queue

	mu       sync.Mutex
	inFlight int       // as last reported by Report
	begun    int       // permits taken since that Report, not yet in inFlight
	unused   int       // permits not yet taken
	until    time.Time // end of the permits' validity
	want     int       // as last reported by Report: attempts that wait for a permit
	priority int       // likewise: the best priority of their tasks
	recorded int       // the largest number of permits that the owner may count as held here
	counted  bool      // max_in_flight counts: the owner must learn of an attempt's end at once
	outdated bool      // the report of the call under way is no longer true
	renew    time.Time // when the owner must get the next report
	quiet    time.Time // no permits are asked for before this instant
	failures int       // consecutive failed calls
	round    uint64
	running  bool          // the goroutine of run exists
	changed  chan struct{} // capacity 1: run looks again
}

// NewBorrower returns a Borrower without permits for a leadership, which is over when ctx ends.
func NewBorrower(ctx context.Context, term uint64, queue Queue) *Borrower {
	return &Borrower{ctx: ctx, term: term, queue: queue, changed: make(chan struct{}, 1)}
}

// Free returns the number of attempts that may begin now.
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

// Take uses one permit and returns false if there is none. The next Report counts the attempt that the permit allows.
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

// CountInFlight sets whether the queue's limits include max_in_flight. Without it, no borrower waits for an attempt's
// end.
func (b *Borrower) CountInFlight(yes bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.counted = yes
}

// Report sets the number of attempts and leases under way, including those of taken permits, the number that could
// still begin, and the best priority of their tasks. Permits beyond that number go back to the owner.
func (b *Borrower) Report(now time.Time, inFlight, want, priority int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.inFlight, b.begun, b.want, b.priority = inFlight, 0, want, priority
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

// held returns the permits that count against the owner's limit.
func (b *Borrower) held() int { return b.inFlight + b.begun + b.unused }

// isIdle reports whether the owner needs no report, now or later.
func (b *Borrower) isIdle() bool { return b.held() == 0 && b.want == 0 && b.recorded == 0 }

// due returns how long the next call to the owner may wait; 0: it is due now.
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

// hasNews reports whether fewer permits are held here than the owner counts, so that another borrower may wait for the
// difference.
func (b *Borrower) hasNews() bool { return b.held() < b.recorded && (b.counted || b.held() == 0) }

// run calls the owner as long as there are reports to make.
func (b *Borrower) run() {
	for b.await() {
		ask := b.say()
		ctx, cancel := context.WithCancel(b.ctx)
		stop := b.interrupt(ctx, cancel, ask)
		loan, err := b.queue.Borrow(ctx, ask)
		cancel()
		<-stop
		if b.ctx.Err() != nil {
			continue
		}
		if b.hear(ask, loan, err) {
			b.queue.Lent()
		}
	}
}

// await waits until a call to the owner is due. It returns false, and run ends, when no report is left to make.
func (b *Borrower) await() bool {
	for {
		b.mu.Lock()
		if b.isIdle() || b.ctx.Err() != nil {
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
		case <-b.ctx.Done():
		case <-b.changed:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// say returns the next report.
func (b *Borrower) say() Borrow {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	b.round++
	unused := b.free(now)
	b.renew = now.Add(patience)
	b.recorded, b.outdated = b.held(), false
	return Borrow{
		Term: b.term, Round: b.round, InFlight: b.inFlight + b.begun, Unused: unused,
		Want: min(max(b.want-unused, 0), maxWant), Priority: b.priority, Wait: true,
	}
}

// interrupt cancels a call that waits at the owner once its report is outdated: attempts have ended and the call may be
// waiting for their permits, no more permits are wanted, or a task of a better priority has come.
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
	b.outdated = b.outdated || ask.Want > 0 && (b.hasNews() || b.want == 0 || b.priority < ask.Priority)
	return b.outdated
}

// hear processes the owner's answer to a call. It reports whether new permits have come.
func (b *Borrower) hear(ask Borrow, loan Loan, err error) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	asked := b.renew.Add(-patience)
	switch {
	case err != nil && b.outdated:
		b.recorded += ask.Want // the answer with them may be lost
		return false
	case err != nil && b.held() == 0 && b.want == 0:
		b.recorded = 0 // the owner's record will lapse
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
