package shard

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/shard/dispatch/desk"
	"github.com/belfryhq/belfry/shard/dispatch/lend"
)

// clockCheckTimeout bounds one comparison of clocks. If it does not show that others should lead, the leadership is
// offered to another voter after checksBeforeAway failed ones.
const (
	clockCheckTimeout = time.Second
	checksBeforeAway  = 4
)

// leadership is one term of this node as leader, and all that works only then.
type leadership struct {
	shard  *Shard
	ctx    context.Context // ends with it; the cause says why
	cancel context.CancelCauseFunc

	term  atomic.Uint64 // known once ready is closed
	ready chan struct{} // closed when the Takeover has been applied
	began time.Time
	given []task.LiveLease // what the leadership before had leased; reclaim's, once ready is closed

	desk     *desk.Desk   // where consumers wait
	lender   *lend.Lender // of the queues that this shard owns
	inForce  mark         // the version of the policies that it goes by; 0: of none
	proposer *proposer
	ticker   *ticker
	firing   *firing
	verifier *verifier
	moving   sync.Mutex // held during a transfer

	workers sync.WaitGroup
}

func newLeadership(ctx context.Context, s *Shard) *leadership {
	ctx, cancel := context.WithCancelCause(ctx)
	l := &leadership{shard: s, ctx: ctx, cancel: cancel, ready: make(chan struct{}), began: time.Now()}
	l.desk = newDesk(l)
	l.lender = lend.NewLender()
	l.proposer = newProposer(l)
	l.ticker = newTicker(l)
	l.firing = newFiring(l)
	l.verifier = &verifier{lead: l}
	return l
}

// start sets the workers going. Calls may wait from now on; they are queued after the Takeover.
func (l *leadership) start() {
	l.shard.applier.wanted.Store(true)
	l.workers.Go(func() { l.proposer.run(l.ctx) })
	l.workers.Go(l.takeOver)
}

// takeOver does what must come before anything else, and then lets the wheel turn.
func (l *leadership) takeOver() {
	if !l.clearToLead(l.ctx) || !l.agreeOnClock(l.ctx) {
		return
	}
	l.proposer.intake.requestTakeover()
	select {
	case <-l.ctx.Done():
		return
	case <-l.ready:
	}
	l.shard.metrics.takeovers.Inc()
	l.shard.cfg.Logger.Info("leading", "term", l.term.Load(), "after", time.Since(l.began))
	l.workers.Go(func() { l.firing.run(l.ctx) })
	l.workers.Go(func() { l.ticker.run(l.ctx) })
	l.workers.Go(func() { l.keepRules(l.ctx) })
	l.workers.Go(func() { l.reclaim(l.ctx) })
	l.workers.Go(func() { l.goHome(l.ctx) })
	l.workers.Go(func() { l.stepAside(l.ctx) })
}

// open is called by the proposer when the Takeover has been applied.
func (l *leadership) open(term uint64) {
	l.term.Store(term)
	if l.shard.cfg.Arrived != nil {
		l.given = l.shard.machine.LiveLeases()
	}
	close(l.ready)
}

// end begins the end. It does not block and may be called by anybody, any number of times; the first cause stays.
func (l *leadership) end(cause error) { l.cancel(cause) }

// stop ends it and waits for its workers. Attempts that run are not among them.
func (l *leadership) stop() {
	l.end(errEnded)
	l.workers.Wait()
	l.closeDesk()
	l.shard.applier.wanted.Store(false)
	l.shard.cfg.Logger.Info("leading no more", "term", l.term.Load(), "cause", context.Cause(l.ctx))
}

// awaitReady waits for the Takeover: from then on the machine holds all that earlier terms have acknowledged.
func (l *leadership) awaitReady(ctx context.Context) error {
	select {
	case <-l.ready:
		return nil
	case <-l.ctx.Done():
		return l.shard.notLeader()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// admit lets calls wait, as many as may, until the Takeover has been applied. Only then do voters agree with this
// node's clock, and what a leader writes into a command counts from that. Room is reserved for those that have waited.
func (l *leadership) admit(ctx context.Context, cmds []*fsmpb.Command) (*reservation, error) {
	select {
	case <-l.ready:
		return nil, nil
	default:
	}
	var bytes int64
	for _, cmd := range cmds {
		bytes += int64(cmd.SizeVT())
	}
	reserved, err := l.proposer.intake.reserve(bytes)
	if err != nil {
		return nil, err
	}
	err = l.awaitReady(ctx)
	if err != nil && ctx.Err() != nil {
		err = fmt.Errorf("%w: %w", task.ErrNotProposed, err)
	}
	return reserved, err
}

// inTouch tells whether it is sure enough that no other leader has begun: a majority has answered within the leader
// lease, or does so now. No promise rests on it; it keeps a leader that was stopped for a while from starting attempts
// that its successor has started already.
func (l *leadership) inTouch(ctx context.Context) bool {
	s := l.shard
	if !s.group.LeadsIn(l.term.Load()) {
		l.end(errEnded)
	}
	if ctx.Err() != nil {
		return false
	}
	if s.cfg.inTouch(s.group, l.term.Load()) {
		return true
	}
	if err := l.verifier.verify(ctx); err != nil {
		l.end(err)
		return false
	}
	return ctx.Err() == nil
}

// agreeOnClock compares this node's clock with those of a majority of the voters until they agree. It returns false
// when the leadership has ended.
func (l *leadership) agreeOnClock(ctx context.Context) bool {
	s := l.shard
	for failures := 1; ; failures++ {
		err := s.compareClocks(ctx)
		if err == nil {
			s.clock.trust()
			return ctx.Err() == nil
		}
		if ctx.Err() != nil {
			return false
		}
		s.cfg.Logger.Warn("clock is not agreed on: nothing is fired", "err", err)
		if errors.Is(err, ErrClockApart) || failures%checksBeforeAway == 0 {
			l.giveAway(ctx)
		}
		if !sleep(ctx, checkPause) {
			return false
		}
	}
}

// giveAway tries to hand the leadership to somebody who is well, without patience for running attempts; false: there is
// nobody.
func (l *leadership) giveAway(ctx context.Context) bool {
	to := l.shard.bestPeer(l.shard.group.Term())
	if to == "" {
		return false
	}
	if err := l.transfer(ctx, to, 0, true); err != nil && ctx.Err() == nil {
		l.shard.cfg.Logger.Warn("leadership not given away", "to", to, "err", err)
	}
	return true
}

func (s *Shard) compareClocks(ctx context.Context) error {
	if s.cfg.ClockAgrees == nil || s.isAlone() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, clockCheckTimeout)
	defer cancel()
	return s.cfg.ClockAgrees(ctx, s.Voters())
}

// isAlone tells whether nobody votes but this node.
func (s *Shard) isAlone() bool { return len(s.Voters()) < 2 }
