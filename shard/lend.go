package shard

import (
	"context"
	"time"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/shard/dispatch/lend"
)

func isLimited(p *fsmpb.QueuePolicy) bool { return p.GetMaxInFlight() > 0 || p.GetMaxPerSecond() > 0 }

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
	policy := s.policyOf(ask.Namespace, ask.Queue)
	if !isLimited(policy) {
		// One of the two nodes has not heard of the newest policy yet. Were it this one, lending would know no bound.
		return Loan{Life: lend.Life, RetryAfter: notLimited}, nil
	}
	loan := l.lender.Lend(ctx, ask, lend.Limit{
		InFlight: int(policy.GetMaxInFlight()), PerSecond: policy.GetMaxPerSecond(),
	})
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

// borrower returns what holds a queue's permits here. It is kept for the whole leadership, so that there is never more
// than one who speaks for this shard.
func (b *book) borrower(name queueName) *lend.Borrower {
	if borrower, ok := b.borrowers[name]; ok {
		return borrower
	}
	intake := b.lead.proposer.intake
	borrower := lend.NewBorrower(lend.BorrowerConfig{
		Context: b.lead.ctx, Namespace: name.namespace, Queue: name.queue, Shard: b.shard.cfg.ID,
		Term: b.shard.raft.CurrentTerm(),
		Call: b.shard.limits().Borrow,
		Got:  func() { intake.tell(func(b *book) { b.gotPermits(name) }) },
	})
	b.borrowers[name] = borrower
	return borrower
}

// gotPermits is told that a queue may begin more.
func (b *book) gotPermits(name queueName) {
	if q, ok := b.queues[name]; ok {
		b.serveLater(q)
	}
}
