package shard

import (
	"context"
	"time"

	"github.com/belfryhq/belfry/shard/dispatch"
	"github.com/belfryhq/belfry/shard/dispatch/lend"
)

// Limits lends permits to begin attempts of a limited queue. Shard.Lend is the other side.
type Limits interface {
	// Borrow asks the shard that owns the queue, wherever it is led. It may take as long as the owner makes borrowers
	// wait, and returns within some seconds. An error lends nothing.
	Borrow(ctx context.Context, ask Borrow) (Loan, error)
}

// Borrow is what a borrower says to the owner of a queue's limits.
type Borrow = lend.Borrow

// Loan is what the owner answers.
type Loan = lend.Loan

// notLimited is how long a borrower waits before it asks again for permits of a queue without a limit.
const notLimited = 50 * time.Millisecond

// Lend takes a borrower's report as the owner of its queue, and lends it permits. The call may wait half a second for
// them. Nothing of it is in the log. Errors are *task.NotLeaderError and a context's.
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

// alone is the Limits of a shard that owns all queues itself.
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
