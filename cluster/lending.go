package cluster

import (
	"context"
	"fmt"
	"time"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/cluster/router"
	"github.com/belfryhq/belfry/fsm"
	"github.com/belfryhq/belfry/shard"
)

// limits lets the shards here borrow from the shards that own the queues, wherever those are led.
type limits struct{ router *router.Router }

var _ shard.Limits = limits{}

// Borrow takes the call to the owner, and the loan back.
func (l limits) Borrow(ctx context.Context, ask shard.Borrow) (shard.Loan, error) {
	loan, err := l.router.Lend(ctx, &clusterpb.LendCall{
		Namespace: ask.Namespace, Queue: ask.Queue, Borrower: ask.Shard,
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

// Lend asks the replica here, which lends nothing yet.
func (h *hosts) Lend(_ context.Context, id uint32, _ *clusterpb.LendCall) (*clusterpb.Loan, error) {
	if _, err := h.find(id); err != nil {
		return nil, err
	}
	return nil, fmt.Errorf("%w: shard %d lends nothing", fsm.ErrNotProposed, id)
}
