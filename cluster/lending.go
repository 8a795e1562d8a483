package cluster

import (
	"context"
	"time"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/cluster/router"
	"github.com/belfryhq/belfry/shard"
)

// limits lets the shards here borrow from the shards that own the queues, wherever those are led.
type limits struct{ router *router.Router }

var _ shard.Limits = limits{}

// Borrow takes the call to the owner, and the loan back.
func (l limits) Borrow(ctx context.Context, ask shard.Borrow) (shard.Loan, error) {
	loan, err := l.router.Lend(ctx, &clusterpb.LendCall{
		Namespace: ask.Namespace, Queue: ask.Queue, Borrower: ask.Shard, Term: ask.Term, Round: ask.Round,
		InFlight: uint32(ask.InFlight), Unused: uint32(ask.Unused), Want: uint32(ask.Want),
	})
	if err != nil {
		return shard.Loan{}, err
	}
	return shard.Loan{
		Permits: int(loan.GetPermits()), Life: time.Duration(loan.GetLifeUs()) * time.Microsecond,
		RetryAfter: time.Duration(loan.GetRetryAfterUs()) * time.Microsecond,
	}, nil
}

// Lend asks the replica here.
func (r *replicas) Lend(ctx context.Context, id uint32, ask *clusterpb.LendCall) (*clusterpb.Loan, error) {
	s, err := r.find(id)
	if err != nil {
		return nil, err
	}
	loan, err := s.Lend(ctx, shard.Borrow{
		Namespace: ask.Namespace, Queue: ask.Queue, Shard: ask.Borrower, Term: ask.Term, Round: ask.Round,
		InFlight: int(ask.InFlight), Unused: int(ask.Unused), Want: int(ask.Want),
	})
	if err != nil {
		return nil, err
	}
	return &clusterpb.Loan{
		Permits: uint32(loan.Permits), LifeUs: loan.Life.Microseconds(), RetryAfterUs: loan.RetryAfter.Microseconds(),
	}, nil
}
