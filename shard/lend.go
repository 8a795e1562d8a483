package shard

import (
	"context"
	"time"

	"github.com/belfryhq/belfry/internal/lend"
	"github.com/belfryhq/belfry/shard/dispatch"
)

// Limits reaches the other sides of the limits of queues and of their groups, wherever their leaders are.
type Limits interface {
	// Borrow asks the shard that owns a queue for permits to begin attempts: its Lend. The owner may make the borrower
	// wait; Borrow returns within some seconds. An error lends nothing.
	Borrow(ctx context.Context, ask Borrow) (Loan, error)
	// AskGroups asks the shard that owns a queue for permits of its groups. The owner may make the asker wait. An error
	// gives nothing.
	AskGroups(ctx context.Context, ask GroupsAsk) (GroupsAnswer, error)
	// LookGroups asks the leaders of all shards where groups stand. It returns an error if one does not answer.
	LookGroups(ctx context.Context, look GroupsLook) ([]GroupsStanding, error)
}

// Borrow is the request of a shard's leader to the owner of a queue's limits.
type Borrow struct {
	Namespace, Queue string
	Shard            uint32 // the borrower
	lend.Borrow
}

// Loan is the owner's answer.
type Loan = lend.Loan

// notLimited is the pause before a borrower asks again for permits of a queue without a limit.
const notLimited = 50 * time.Millisecond

// Lend takes a borrower's report as the owner of its queue and lends it permits. The call may wait half a second for
// permits. Neither the report nor the loan is in the log. Errors are *task.NotLeaderError and the context's.
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
	limit := dispatch.LimitOf(s.cfg.Policies.Policy(ask.Namespace, ask.Queue))
	if limit.IsNone() {
		// One of the two nodes does not know the newest policy yet. If it is this node, a loan would have no limit.
		return Loan{Life: lend.Life, RetryAfter: notLimited}, nil
	}
	ask.Wait = true
	queue := dispatch.QueueName{Namespace: ask.Namespace, Queue: ask.Queue}
	loan := l.lender.Lend(ctx, queue, ask.Shard, ask.Borrow, limit)
	if l.ctx.Err() != nil {
		return Loan{}, s.notLeader()
	}
	return loan, ctx.Err()
}

// alone is the Limits of a shard that owns all queues itself.
type alone struct{ shard *Shard }

func (a alone) Borrow(ctx context.Context, ask Borrow) (Loan, error) { return a.shard.Lend(ctx, ask) }

func (a alone) AskGroups(ctx context.Context, ask GroupsAsk) (GroupsAnswer, error) {
	return a.shard.AskGroups(ctx, ask)
}

func (a alone) LookGroups(ctx context.Context, look GroupsLook) ([]GroupsStanding, error) {
	standing, err := a.shard.LookGroups(ctx, look)
	return []GroupsStanding{standing}, err
}

// Permits returns the permits of a limited queue. They are kept for the whole leadership, so that this shard has a
// single borrower per queue.
func (p *proposer) Permits(name dispatch.QueueName) dispatch.Permits {
	if borrower, ok := p.borrowers[name]; ok {
		return p.shard.dev.permitsOf(borrower)
	}
	borrower := lend.NewBorrower(p.lead.ctx, p.shard.group.Term(), limitedQueue{p, name})
	p.borrowers[name] = borrower
	return p.shard.dev.permitsOf(borrower)
}

// limitedQueue is a queue for which a proposer borrows.
type limitedQueue struct {
	p    *proposer
	name dispatch.QueueName
}

func (q limitedQueue) Borrow(ctx context.Context, ask lend.Borrow) (lend.Loan, error) {
	shard := q.p.shard
	return shard.limits.Borrow(ctx, Borrow{q.name.Namespace, q.name.Queue, shard.cfg.ID, ask})
}

func (q limitedQueue) Lent() {
	q.p.intake.tell(func(p *dispatch.Planner, now time.Time) { p.Lent(now, q.name) })
}
