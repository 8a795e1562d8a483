package shard

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/internal/lend"
	"github.com/belfryhq/belfry/shard/dispatch"
	"github.com/belfryhq/belfry/shard/dispatch/desk"
	"github.com/belfryhq/belfry/shard/internal/groups"
	"github.com/belfryhq/belfry/shard/internal/moves"
)

// leadership is one term of this node as leader, with the workers that run only during it.
type leadership struct {
	shard  *Shard
	ctx    context.Context // ends with the leadership; its cause is the reason
	cancel context.CancelCauseFunc

	term  atomic.Uint64 // set before ready is closed
	ready chan struct{} // closed when the Takeover has been applied
	began time.Time
	given []task.LiveLease // live leases at the Takeover, for reclaim; set before ready is closed

	desk     *desk.Desk                               // holds the consumers' demands
	lender   *lend.Lender[dispatch.QueueName, uint32] // lends permits of the queues that this shard owns
	keeper   *groups.Keeper                           // gives permits of the groups of these queues
	inForce  mark                                     // version of the policies that the rules follow; 0: none yet
	proposer *proposer
	ticker   *ticker
	extender *extender
	firing   *firing
	verifier *verifier
	turns    *turns // of transfers

	source *moves.Source // of slots that move away
	target moves.Target  // of slots that come

	workers sync.WaitGroup
}

func newLeadership(ctx context.Context, s *Shard) *leadership {
	ctx, cancel := context.WithCancelCause(ctx)
	l := &leadership{shard: s, ctx: ctx, cancel: cancel, ready: make(chan struct{}), began: time.Now()}
	l.desk = desk.NewDesk(lessor{l})
	l.lender = lend.NewLender[dispatch.QueueName, uint32](lend.OfQueues)
	l.keeper = groups.NewKeeper(ctx, s.limits.LookGroups)
	l.proposer = newProposer(l)
	l.ticker = newTicker(l)
	l.extender = newExtender(l)
	l.firing = newFiring(l)
	l.verifier = &verifier{lead: l}
	l.turns = newTurns()
	l.source = moves.NewSource(s.machine)
	return l
}

// start launches the workers. Calls may wait from now on, and are queued after the Takeover.
func (l *leadership) start() {
	l.shard.applier.wanted.Add(1)
	l.workers.Go(func() { l.proposer.run(l.ctx) })
	l.workers.Go(l.takeOver)
}

// takeOver completes the steps that precede all other work, then launches the other workers.
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
	l.workers.Go(func() { l.extender.run(l.ctx) })
	l.workers.Go(func() { l.reclaim(l.ctx) })
	l.workers.Go(func() { l.goHome(l.ctx) })
	l.workers.Go(func() { l.stepAside(l.ctx) })
}

// open marks the leadership as ready. The proposer calls it when the Takeover has been applied.
func (l *leadership) open(term uint64) {
	l.term.Store(term)
	l.shard.caughtUp.Store(true)
	if l.shard.cfg.Consumers != nil {
		l.given = l.shard.machine.LiveLeases()
	}
	close(l.ready)
}

// end starts the leadership's end. It does not block. Any goroutine may call it any number of times; the first cause
// stays.
func (l *leadership) end(cause error) { l.cancel(cause) }

// stop ends the leadership and waits for its workers. It does not wait for running attempts.
func (l *leadership) stop() {
	l.end(errEnded)
	l.workers.Wait()
	l.source.Stop()
	l.closeDesk()
	l.shard.applier.wanted.Add(-1)
	l.shard.cfg.Logger.Info("leading no more", "term", l.term.Load(), "cause", context.Cause(l.ctx))
}

// awaitReady waits for the Takeover. After it the machine holds every command that earlier terms have acknowledged.
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

// admit holds a call until the Takeover has been applied, and reserves room for it meanwhile. Only then do the voters
// agree with this node's clock, from which the times count that the leader writes into commands. The reservation is nil
// if the call did not wait.
func (l *leadership) admit(ctx context.Context, cmds []*fsmpb.Command) (*reservation, error) {
	select {
	case <-l.ready:
		return nil, nil
	default:
	}
	bytes := 0
	for _, cmd := range cmds {
		bytes += cmd.SizeVT()
	}
	reserved, err := l.proposer.intake.reserve(namespaceOf(cmds), bytes)
	if err != nil {
		return nil, err
	}
	err = l.awaitReady(ctx)
	if err != nil && ctx.Err() != nil {
		err = fmt.Errorf("%w: %w", task.ErrNotProposed, err)
	}
	return reserved, err
}

// inTouch reports whether it is sure enough that no other leader has begun: a majority has answered within the leader's
// lease, or answers now. No guarantee depends on it. It keeps a leader that was stopped for a while from starting
// attempts that its successor has started already.
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

// giveAway tries to transfer the leadership to a voter that is well, without waiting for running attempts. It returns
// false if no such voter exists.
func (l *leadership) giveAway(ctx context.Context) bool {
	to := l.bestPeer(l.shard.group.Term())
	if to == "" {
		return false
	}
	if err := l.transfer(ctx, to, 0, true); err != nil && ctx.Err() == nil {
		l.shard.cfg.Logger.Warn("leadership not given away", "to", to, "err", err)
	}
	return true
}
