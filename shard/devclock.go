package shard

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/internal/lend"
	"github.com/belfryhq/belfry/shard/dispatch"
)

// DevClock is the clock of a node in dev mode, which a test sets ahead. A shard with such a clock also plans attempts
// and ends them by it: the pauses of a receiver's breaker and the timeouts of attempts pass as fast as the clock moves.
// Rates and limits of queues keep the machine's time, and so do all timers of Raft and of the network.
//
// The clock moves the shard in steps by the shard's DevTime:
//
//	NextWork   the instant to which the clock goes next
//	CatchUp    does all work that is due by then, and begins the attempts
//	Doing      the attempts that have not begun or ended yet
type DevClock interface {
	// Within returns a context that ends with context.DeadlineExceeded after d by this clock.
	Within(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc)
	// Stir reports that the results of NextWork or Doing may have changed. It must not block.
	Stir()
	// Stirred returns a channel that the next Stir closes.
	Stirred() <-chan struct{}
}

// DevTime is the time by which a shard plans attempts and ends them. In dev mode, it also knows the work through which
// the dev clock moves the shard.
type DevTime struct {
	shard *Shard
	clock DevClock // nil: the shard is not in dev mode, and the machine's time counts

	mu    sync.Mutex
	begun uint64       // attempts and leases since the start
	given []task.Grant // leases since the last Forget that may not have ended
}

// DevTime returns the shard's side of the dev clock.
func (s *Shard) DevTime() *DevTime { return s.dev }

// within is context.WithTimeout by this time.
func (d *DevTime) within(ctx context.Context, timeout time.Duration) (context.Context, context.CancelFunc) {
	if d.clock != nil {
		return d.clock.Within(ctx, timeout)
	}
	return context.WithTimeout(ctx, timeout)
}

func (d *DevTime) stir() {
	if d.clock != nil {
		d.clock.Stir()
	}
}

// now returns the time for the planner, which never goes back.
func (d *DevTime) now() time.Time {
	if d.clock != nil {
		return d.shard.cfg.Clock()
	}
	return time.Now()
}

// permitsOf returns a borrower's permits. They keep the machine's time also beside a dev clock.
func (d *DevTime) permitsOf(b *lend.Borrower) dispatch.Permits {
	if d.clock != nil {
		return machineTime{b}
	}
	return b
}

// machineTime adapts a Borrower to callers that go by the dev clock: the machine's time replaces their instants.
type machineTime struct{ *lend.Borrower }

func (m machineTime) Free(time.Time) int  { return m.Borrower.Free(time.Now()) }
func (m machineTime) Take(time.Time) bool { return m.Borrower.Take(time.Now()) }
func (m machineTime) Report(_ time.Time, inFlight, want, priority int) {
	m.Borrower.Report(time.Now(), inFlight, want, priority)
}

// NextWork returns the instant of the shard's next work: a due time, a retry, the end of a lease or of a retention, or
// the end of a receiver's pause. The instant may have passed, and has if a schedule wants coming instants. ok is false
// if the shard has no work. The error is a *task.NotLeaderError.
func (d *DevTime) NextWork() (at time.Time, ok bool, err error) {
	s := d.shard
	l := s.current()
	if l == nil {
		return time.Time{}, false, s.notLeader()
	}
	ms := min(l.firing.next(), l.proposer.nextPlan.Load())
	if due, some := s.machine.Next(); some {
		ms = min(ms, due)
	}
	if l.extender.isBehind() {
		ms = 0
	}
	return time.UnixMilli(ms), ms != never, nil
}

// CatchUp does all work that is due up to the instant to, which the clock must have reached. It returns when the
// attempts that may begin have begun, in the order of their instants, and the schedules have their coming instants. The
// error is a *task.NotLeaderError or the context's.
func (d *DevTime) CatchUp(ctx context.Context, to time.Time) error {
	s := d.shard
	for toMs := to.UnixMilli(); ; {
		l, changed := s.current(), d.clock.Stirred()
		if l == nil {
			return s.notLeader()
		}
		due, some := s.machine.Next()
		switch {
		case some && due <= toMs:
			if err := l.advanceNow(ctx); err != nil {
				return err
			}
			continue
		case l.extender.isBehind():
			l.extender.look()
		case l.firing.next() <= toMs:
			wake(l.firing.changed)
		case l.proposer.nextPlan.Load() <= toMs:
			l.proposer.intake.requestGrants()
		default:
			return nil
		}
		select {
		case <-changed:
		case <-l.ctx.Done():
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// advanceNow commits one Advance without waiting for the ticker.
func (l *leadership) advanceNow(ctx context.Context) error {
	select {
	case a := <-l.proposer.intake.requestAdvance():
		if a.ended {
			return l.shard.notLeader()
		}
		return nil
	case <-l.ctx.Done():
		return l.shard.notLeader()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Doing counts the work that has not ended and does not wait for an instant.
type Doing struct {
	// Running are the attempts under way at receivers, and the leases that consumers got since the last Forget.
	Running int

	// Waiting are due tasks whose attempts begin when others end or when their queue's limits allow. Tasks of a paused
	// queue, and tasks without a consumer, are not among them.
	Waiting int
}

// Doing returns the present counts of the shard.
func (d *DevTime) Doing() (n Doing) {
	s := d.shard
	if l := s.current(); l != nil {
		n.Running = -l.firing.heldBack()
	}
	for _, load := range s.machine.Loads() {
		if load.Pulled {
			continue
		}
		n.Running += load.Firing
		policy := s.cfg.Policies.Policy(load.Lane.Namespace, load.Lane.Queue)
		limited := !dispatch.LimitOf(policy).IsNone() || task.LimitsGroups(policy)
		if !policy.GetPaused() && (load.Firing > 0 || limited) {
			n.Waiting += load.Ready
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.given = slices.DeleteFunc(d.given, func(g task.Grant) bool {
		_, _, ok := s.machine.Attempt(g.Namespace, g.ID, g.Fence)
		return !ok
	})
	n.Running = max(n.Running, 0) + len(d.given)
	return n
}

// count counts attempts and leases that have begun.
func (d *DevTime) count(grants []task.Grant) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.begun += uint64(len(grants))
	d.given = append(d.given, leased(grants)...)
}

// Begun returns the number of attempts and leases that have begun here since the start.
func (d *DevTime) Begun() uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.begun
}

// Forget makes Doing leave out the leases that consumers have got so far.
func (d *DevTime) Forget() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.given = nil
}
