package shard

import (
	"context"
	"time"

	"github.com/belfryhq/belfry/shard/dispatch"
	"github.com/belfryhq/belfry/shard/dispatch/lend"
)

// notLimited is when a borrower asks again that was told that its queue has no limit.
const notLimited = 50 * time.Millisecond

// Lend is the owner's side of a queue's limits: it takes what a borrower says, and lends it permits, for which the call
// may wait half a second. Nothing of it is in the log. Errors are *task.NotLeaderError and a context's.
func (s *Shard) Lend(ctx context.Context, ask Borrow) (Loan, error) {
	l, err := s.leadership(ctx)
	if err != nil {
		return Loan{}, err
	}
	if err := l.awaitReady(ctx); err != nil {
		return Loan{}, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(l.ctx, cancel)()
	limit := dispatch.LimitOf(s.policyOf(ask.Namespace, ask.Queue))
	if limit.IsNone() {
		// One of the two nodes has not heard of the newest policy yet. Were it this one, lending would know no bound.
		return Loan{Life: lend.Life, RetryAfter: notLimited}, nil
	}
	loan := l.lender.Lend(ctx, ask, limit)
	if l.ctx.Err() != nil {
		return Loan{}, s.notLeader()
	}
	return loan, ctx.Err()
}

// alone lends from the shard itself: it owns all queues.
type alone struct{ shard *Shard }

func (a alone) Borrow(ctx context.Context, ask Borrow) (Loan, error) { return a.shard.Lend(ctx, ask) }

func (s *Shard) limits() Limits {
	if s.cfg.Limits == nil {
		return alone{s}
	}
	return s.cfg.Limits
}

// permits returns the permits of a limited queue. They are kept for the whole leadership, so that one borrower alone
// speaks for this shard.
func (p *proposer) permits(name dispatch.QueueName) dispatch.Permits {
	if borrower, ok := p.borrowers[name]; ok {
		return borrower
	}
	borrower := lend.NewBorrower(lend.BorrowerConfig{
		Context: p.lead.ctx, Namespace: name.Namespace, Queue: name.Queue, Shard: p.shard.cfg.ID,
		Term: p.shard.group.Term(),
		Call: p.shard.limits().Borrow,
		Got:  func() { p.intake.tell(func(p *dispatch.Planner, now time.Time) { p.Lent(now, name) }) },
	})
	p.borrowers[name] = borrower
	return borrower
}
