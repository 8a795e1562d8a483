package cluster

import (
	"context"

	"github.com/belfryhq/belfry/shard"
)

// Lend asks the replica here.
func (r *replicas) Lend(ctx context.Context, id uint32, ask shard.Borrow) (shard.Loan, error) {
	s, err := r.find(id)
	if err != nil {
		return shard.Loan{}, err
	}
	return s.Lend(ctx, ask)
}
